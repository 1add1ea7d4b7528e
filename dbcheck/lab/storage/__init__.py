"""What a lab's server keeps its data on, from the folder down to the drive."""
