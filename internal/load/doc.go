// Package load drives a transport: closed loop, a number of requests held in flight, and open loop, requests sent at
// times drawn beforehand.
package load
