"""What can be measured of a process at work."""
