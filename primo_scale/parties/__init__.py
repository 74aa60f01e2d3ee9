"""Release of the columns of several parties that hold data of the same people."""
