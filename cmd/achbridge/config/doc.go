// Package config is what a daemon is told and where its files are: the flags, the
// environment and the YAML file come to one Config, in which each setting knows where it
// was written.
//
//	places := config.Places{Env: os.Getenv, UID: os.Getuid()}
//	c, err := places.Source(file, cmd.Flags()).Load() // err names every mistake with its line
//	for _, j := range c.Judgements("krang", "imu", nil) {
//		fmt.Println(j.Verb, j.Result, j.From) // which rule applies, and where it stands
//	}
//
// A flag goes before the environment, that before the file, that before the default.
// Judgements say which rule applies to a channel; achbridge explain and check print them.
// Rules and quality of service are parsed by bridge/rule.
package config
