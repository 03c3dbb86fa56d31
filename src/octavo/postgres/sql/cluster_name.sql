SELECT current_setting('cluster_name') AS cluster_name
