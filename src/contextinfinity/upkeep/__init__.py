"""Maintenance: integrity checks, repairs, backups and encryption of a data_dir."""
