"""What tests of several kinds share: samples, operations, rows."""
