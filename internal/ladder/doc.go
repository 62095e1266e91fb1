// Package ladder decides which concurrency to hold next, when a rung is decided, and when Q_max is certified.
package ladder
