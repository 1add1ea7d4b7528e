-- Writes all changed pages out, so that recovery starts from here.
checkpoint;
