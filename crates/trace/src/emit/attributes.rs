//! The attributes that events carry (`docs/MAPPING.md` §5): one table, the same in every archive.

use otf2::{AttributeRef, AttributeType};

macro_rules! attributes {
    ($($variant:ident $name:literal $kind:ident $description:literal;)+) => {
        /// An attribute; its number is its reference in every part.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        pub(crate) enum Attribute {
            $(#[doc = $description] $variant,)+
        }

        impl Attribute {
            /// All, in the order of their numbers.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in the archive.
            #[must_use]
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The type of its values.
            #[must_use]
            pub(crate) const fn value_type(self) -> AttributeType {
                match self { $(Self::$variant => AttributeType::$kind,)+ }
            }

            /// What it means, for people.
            #[must_use]
            pub(crate) const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)+ }
            }
        }
    };
}

attributes! {
    Event "nccl.event" U64 "Id of the event, unique in the job";
    Parent "nccl.parent" U64 "Id of the parent event";
    CommId "nccl.comm_id" U64 "NCCL's id of the communicator";
    CommName "nccl.comm_name" String "The user's name of the communicator";
    Rank "nccl.rank" U32 "Rank in the communicator";
    Ranks "nccl.ranks" U32 "Number of ranks of the communicator";
    Nodes "nccl.nodes" U32 "Number of hosts of the communicator";
    Depth "nccl.group_depth" I32 "Group depth: 1 for a single call, 2 and more for a user's group";
    Captured "nccl.graph_captured" U8 "1: the call was captured into a CUDA graph";
    Replays "nccl.replays" U64 "Replays of the captured call that NCCL reported; without: none was, though there may be some that it does not report";
    Replay "nccl.replay" U64 "Which replay of the captured call (nccl.parent) it is, from 1";
    Count "nccl.count" U64 "Number of elements";
    Datatype "nccl.datatype" String "Type of an element";
    Bytes "nccl.bytes" U64 "Number of elements times their size, in bytes";
    Root "nccl.root" I32 "Rank of the root";
    Stream "nccl.stream" U64 "Handle of the CUDA stream";
    UserTag "nccl.user_tag" U64 "The tag the user gave the operation";
    Sequence "nccl.seq" U64 "Sequence number of the operation, by function and communicator";
    Algorithm "nccl.algo" String "Algorithm";
    Protocol "nccl.proto" String "Protocol";
    Channels "nccl.channels" U32 "Number of channels";
    Warps "nccl.warps" U32 "Number of warps per channel";
    KernelVariant "nccl.kernel_variant" String "Variant of the kernel";
    Symmetric "nccl.symmetric" U8 "1: on symmetric memory";
    Timing "nccl.timing" String "What the interval was measured by: cupti, event, kernelch, kernelch-host, proxy, shared-kernel or enqueue";
    StartMoved "nccl.start_moved_ns" U64 "Time from its launch to the start shown here: the kernel before it had not ended, in ns";
    Peer "nccl.peer" I32 "Rank of the other end";
    BytesSent "nccl.wire_bytes_sent" U64 "Bytes sent on the network, as far as NCCL reported";
    BytesReceived "nccl.wire_bytes_received" U64 "Bytes received from the network, as far as NCCL reported";
    AlgorithmBandwidth "nccl.algbw" F64 "Algorithm bandwidth in bytes per second, as nccl-tests compute it";
    BusBandwidth "nccl.busbw" F64 "Bus bandwidth in bytes per second, as nccl-tests compute it";
    MembersMissing "nccl.members_missing" U32 "Sends and receives of this collective that are not in the trace";
    Unfinished "nccl.unfinished" U8 "1: it had not ended when recording did";
    Channel "nccl.channel" U32 "Channel";
    Steps "nccl.steps" I32 "Number of steps";
    ChunkBytes "nccl.chunk_bytes" I32 "Bytes of a step's chunk";
    OriginPid "nccl.origin_pid" I32 "Process for which the transfer is done, where it is another one (PXN)";
    Origin "nccl.origin" String "Rank, communicator and process for which the transfer is done, where it is another one (PXN); nccl.parent is the operation there";
    QueuedNs "nccl.queued_ns" U64 "Time from the start of the proxy operation to its first progress, in ns";
    WireBytes "nccl.wire_bytes" U64 "Bytes moved on the network, as far as NCCL reported";
    Suspicious "nccl.suspicious" U8 "1: the GPU's times make no sense; host times are shown";
    Closed "nccl.closed" U8 "1: NCCL did not report the end; it is shown up to where something else shows it, its operation or what came after";
    Appended "nccl.appended" U64 "Number of operations that the proxy thread took";
    SyncStrategy "nccl.sync_strategy" String "How the ranks of a copy-engine collective synchronise: MC (multicast) or UC (unicast)";
    Operations "nccl.operations" I32 "Number of copies of the batch";
    Phase "nccl.phase" U32 "Number of the kernel's phase";
    PluginId "nccl.net_plugin" U64 "NCCL's id of the network plugin and of the event's form";
    NetDevice "nccl.net_device" I32 "Number of the network device, as the plugin counts";
    QueuePair "nccl.queue_pair" I32 "Number of the queue pair";
    Opcode "nccl.net_opcode" I32 "What the network plugin did, as it numbers it";
    WorkRequest "nccl.work_request" U64 "Id of the work request";
    Socket "nccl.socket" I32 "File descriptor of the socket";
    Step "nccl.step" I32 "Number of the step in its proxy operation";
    ExternalCorrelation "nccl.external_correlation" U64 "The id that CUPTI reports with the work of a launch: the nccl.event of the launch or copy-engine collective";
    Correlation "cuda.correlation" U32 "CUPTI's correlation id: of the call that launched it, or of the graph's launch";
    Grid "cuda.grid" String "Blocks of the grid: x,y,z";
    Block "cuda.block" String "Threads of a block: x,y,z";
    Registers "cuda.registers" U32 "Registers per thread";
    StaticShared "cuda.static_shared_bytes" U32 "Shared memory that the kernel declares, in bytes";
    DynamicShared "cuda.dynamic_shared_bytes" U32 "Shared memory that the launch asks for, in bytes";
    Graph "cuda.graph" U32 "CUPTI's number of the graph that launched it";
    GraphNode "cuda.graph_node" U64 "CUPTI's number of its node in the graph";
    SourceGraphNode "cuda.source_graph_node" U64 "CUPTI's number of the node that was captured, of which its node is a clone";
    SourceDevice "cuda.source_device" U32 "Device that is copied from, where it is another one";
    DestinationDevice "cuda.destination_device" U32 "Device that is copied to, where it is another one";
    SourceMemory "cuda.source_memory" String "Kind of memory that is copied from";
    DestinationMemory "cuda.destination_memory" String "Kind of memory that is copied to";
    Copies "cuda.copies" U32 "Copies of a batch";
}

impl Attribute {
    /// Its reference in a part.
    #[must_use]
    pub(crate) const fn reference(self) -> AttributeRef {
        AttributeRef::new(self as u32)
    }
}
