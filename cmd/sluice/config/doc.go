// Package config loads the broker's settings from where an operator gives them
// and says, for each mistake, which setting and which place it is about.
//
// There are three places; a later one goes before an earlier one:
//
//	a YAML file         log.retention.ms: 3600000
//	the environment     SLUICE_LOG_RETENTION_MS=3600000
//	--set               --set log.retention.ms=3600000
//
// In the file a name may be written flat, as above, or as nested maps (log:
// retention: ms: ...), and a list as a YAML list or as text with commas. The
// name of an environment variable is SLUICE_ and the setting's name in capitals
// with '_' for '.'; no setting has a '_' in its name, so this can be turned
// round. SLUICE_CONFIG is the file's path and no setting. Variables of the kind
// that Kubernetes sets for a service called sluice are passed over.
//
// What is not in the tables of catalog/config is refused, and so is a wrong
// value, even if a later place would replace it. Reference writes the tables
// down for docs/config.md.
package config
