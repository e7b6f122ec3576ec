"""Two states of a log dir compared, record by record, with the reason for each difference."""
