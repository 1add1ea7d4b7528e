-- Everything read until the transaction ends is as of now.
start transaction with consistent snapshot, read only;
