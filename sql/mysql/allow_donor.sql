-- The only server whose data this one may copy.
set global clone_valid_donor_list = %(donor)s;
