package main

import "github.com/spf13/cobra"

// operations are the commands on what is deployed (comparing it with what was declared, and putting it in place) and on
// records.
func (a *app) operations() []*cobra.Command {
	return []*cobra.Command{a.driftCommand(), a.applyCommand(), a.validateCommand(), a.proveCommand(), a.watchCommand(), a.iamCommand(), a.compareCommand(), a.simulateCommand()}
}
