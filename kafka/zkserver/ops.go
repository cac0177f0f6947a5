package zkserver

// opcode is the kind of a request, as ZooKeeper numbers them.
type opcode int32

const (
	opCreate            opcode = 1
	opDelete            opcode = 2
	opExists            opcode = 3
	opGetData           opcode = 4
	opSetData           opcode = 5
	opGetACL            opcode = 6
	opSetACL            opcode = 7
	opGetChildren       opcode = 8
	opSync              opcode = 9
	opPing              opcode = 11
	opGetChildren2      opcode = 12
	opCheck             opcode = 13
	opMulti             opcode = 14
	opCreate2           opcode = 15
	opReconfig          opcode = 16
	opCheckWatches      opcode = 17
	opRemoveWatches     opcode = 18
	opCreateContainer   opcode = 19
	opDeleteContainer   opcode = 20
	opCreateTTL         opcode = 21
	opMultiRead         opcode = 22
	opAuth              opcode = 100
	opSetWatches        opcode = 101
	opGetEphemerals     opcode = 103
	opAllChildrenNumber opcode = 104
	opSetWatches2       opcode = 105
	opAddWatch          opcode = 106
	opWhoAmI            opcode = 107
	opCloseSession      opcode = -11
	opError             opcode = -1
)

// opNames are the keys of [Server.Requests].
var opNames = map[opcode]string{
	opCreate: "create", opDelete: "delete", opExists: "exists", opGetData: "getData", opSetData: "setData",
	opGetACL: "getACL", opSetACL: "setACL", opGetChildren: "getChildren", opSync: "sync", opPing: "ping", opGetChildren2: "getChildren2",
	opCheck: "check", opMulti: "multi", opCreate2: "create2", opReconfig: "reconfig", opCheckWatches: "checkWatches",
	opRemoveWatches: "removeWatches", opCreateContainer: "createContainer", opDeleteContainer: "deleteContainer",
	opCreateTTL: "createTTL", opMultiRead: "multiRead", opAuth: "auth", opSetWatches: "setWatches", opGetEphemerals: "getEphemerals",
	opAllChildrenNumber: "getAllChildrenNumber", opSetWatches2: "setWatches2", opAddWatch: "addWatch", opWhoAmI: "whoAmI",
	opCloseSession: "closeSession",
}

// handshakeName is the key of handshakes, which have no opcode.
const handshakeName = "connect"

func (o opcode) String() string {
	if name, ok := opNames[o]; ok {
		return name
	}
	return "unknown"
}

// code is the error of an answer, as ZooKeeper numbers them; 0 is success.
type code int32

const (
	codeOK                      code = 0
	codeRuntimeInconsistency    code = -2 // for the operations of a multi behind the one that failed
	codeMarshalling             code = -5
	codeUnimplemented           code = -6
	codeBadArguments            code = -8
	codeNoNode                  code = -101
	codeNoAuth                  code = -102
	codeBadVersion              code = -103
	codeNoChildrenForEphemerals code = -108
	codeNodeExists              code = -110
	codeNotEmpty                code = -111
	codeInvalidACL              code = -114
	codeAuthFailed              code = -115
	codeNoWatcher               code = -121
	codeReconfigDisabled        code = -123
)

// Transaction numbers and request ids of answers that belong to no request.
const (
	xidEvent  = -1
	xidPing   = -2
	zxidEvent = -1
)

// createMode is the flags of a create.
type createMode int32

const (
	modePersistent           createMode = 0
	modeEphemeral            createMode = 1
	modePersistentSequential createMode = 2
	modeEphemeralSequential  createMode = 3
	modeContainer            createMode = 4
	modePersistentTTL        createMode = 5
	modeSequentialTTL        createMode = 6
)

func (m createMode) known() bool { return m >= modePersistent && m <= modeSequentialTTL }

func (m createMode) ephemeral() bool { return m == modeEphemeral || m == modeEphemeralSequential }

func (m createMode) ttl() bool { return m == modePersistentTTL || m == modeSequentialTTL }

func (m createMode) sequential() bool {
	return m == modePersistentSequential || m == modeEphemeralSequential || m == modeSequentialTTL
}

// ownerContainer is the ephemeral owner of a container, which is no session.
const ownerContainer = -1 << 63

// eventType is what a watch saw.
type eventType int32

const (
	eventCreated         eventType = 1
	eventDeleted         eventType = 2
	eventDataChanged     eventType = 3
	eventChildrenChanged eventType = 4
)

// stateSyncConnected is the state that events of a connected client carry.
const stateSyncConnected = 3
