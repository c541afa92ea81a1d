// Package age measures how old the newest frame of a mirror is over time, and when the next
// frame is due. It reads no clock: the caller passes the time.
package age
