-- Every global setting; variable_name, value.
show global variables;
