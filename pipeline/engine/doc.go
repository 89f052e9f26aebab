// Package engine runs the stages of a plan on a lake and records what is done.
//
// A plan is a list of stages in order. A stage declares the tables that it reads, by the stage that writes them,
// the tables that it writes, how it is cut into tasks, and the function that does one task:
//
//	             Reads                      Cut, Open                    Writes
//	stage A ──► table of A ──►  tasks of B on workers, shards or Beam ──► tables of B ──► stage C
//
// Everything else follows from these declarations: the order of work, what a killed run continues with, which shard
// does which task, how many tasks fit in memory at once, when a temporary table can be removed, and
// which stages run again when a removed or damaged file is needed (repair.go).
//
// A task is the unit of work and of retry. Its files are installed first; the task is done when its record
//
//	_state/scenario=<id>[/variant=<name>]/<stage>/task-NNNNN.json
//
// names them. A record whose files are damaged does not count. plan.json beside the records holds the tasks; a stage
// that would be cut into other tasks begins again.
//
// Retry: a task that fails ends the run of its process, and tasks that are done stay done. The next run of the same
// plan does the others. A task that another process has done meanwhile has not failed (runTask in
// job.go). Beam repeats failed tasks by itself: TaskRunner.Do may be called again.
package engine
