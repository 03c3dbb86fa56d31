SELECT name, current_setting(name, true) AS value
FROM pg_settings
ORDER BY name
