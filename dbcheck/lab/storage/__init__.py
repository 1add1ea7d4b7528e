"""The storage of a lab's server, from the folder down to the drive."""
