-- Every setting as it is in this session; variable_name, value.
show session variables;
