package driver

// ContractRows are the rows of the settings contract, in order: what a
// comparison of brokers rests on. A row's Class is what is compared:
//
//	durability        "persistent", "transient"
//	flush             "os" (left to the kernel), "interval 1s", "count 500", "each"
//	producer acknowledgement
//	                  "none", "received", "appended", "flushed" (by what is
//	                  promised when the answer comes, whatever the system calls it)
//	consumer acknowledgement
//	                  "none" (the consumer keeps its place), "automatic",
//	                  "each", "bulk"
//	prefetch bytes, connections, cores, memory limit
//	                  the number, or "none"
//	disk              device and file system below the store
//
// Rows without a class (threads, version, queue type, what a rival's
// documentation recommends) are shown and not compared.
var ContractRows = []string{
	"version",
	"durability",
	"flush",
	"producer acknowledgement",
	"consumer acknowledgement",
	"prefetch bytes",
	"connections",
	"threads",
	"cores",
	"memory limit",
	"disk",
	"queue or log",
}
