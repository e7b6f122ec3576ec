"""What will be, told: how long a disk lasts, what a later run would do, what a run with other values would do."""
