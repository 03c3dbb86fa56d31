-- Roles that managed services have in each of their servers.
SELECT rolname::text AS role
FROM pg_roles
WHERE rolname IN ('rds_superuser', 'cloudsqlsuperuser', 'alloydbsuperuser', 'azure_pg_admin')
ORDER BY rolname
