//! The attributes of events (`docs/REFERENCE.md` §5): one table for all archives. [`Anchor`] is a reading of all clocks
//! of a process, which is stored as text.

use std::ffi::CStr;

use crate::schema::carriers;
use crate::schema::carriers::{Carrier, Type, Value};
use serde::{Deserialize, Serialize};

/// An attribute. Each is a separate type, so that the compiler knows the type of its values.
pub trait Attribute {
    /// The number of the attribute, which is its reference in every part.
    const ID: AttributeId;
    /// How the attribute's values are stored.
    type Carrier: Carrier;
}

/// The value that is written for an attribute. `S` is the type of texts.
pub type Written<A, S> = <<A as Attribute>::Carrier as Carrier>::Written<S>;
/// The value that is read from an attribute. `S` is the type of texts.
pub type Parsed<A, S> = <<A as Attribute>::Carrier as Carrier>::Parsed<S>;

/// A reader's selection of attributes: a structure declared with [`crate::fields!`].
pub trait Fields<'a>: Default {
    /// Stores an event's attribute if it is selected. `text` resolves a text.
    fn take<R>(&mut self, attribute: AttributeId, value: Value<R>, text: impl FnOnce(R) -> Option<&'a str>);
}

macro_rules! attributes {
    ($($variant:ident $name:literal $carrier:ident $description:literal;)+) => {
        /// The number of an attribute, which is its reference in every part.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum AttributeId {
            $(#[doc = $description] $variant,)+
        }

        impl AttributeId {
            /// All attributes, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in the archive.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The name in the archive, as a C string for Score-P.
            pub const fn c_name(self) -> &'static CStr {
                let name = match self { $(Self::$variant => concat!($name, "\0"),)+ };
                match CStr::from_bytes_with_nul(name.as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }
            }

            /// The attribute with this name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The type of the attribute's values.
            pub const fn value_type(self) -> Type {
                match self { $(Self::$variant => <carriers::$carrier as Carrier>::TYPE,)+ }
            }

            /// The description in the archive, for users.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)+ }
            }
        }

        $(
            #[doc = $description]
            #[derive(Clone, Copy, Debug)]
            pub struct $variant;

            impl Attribute for $variant {
                const ID: AttributeId = AttributeId::$variant;
                type Carrier = carriers::$carrier;
            }
        )+
    };
}

attributes! {
    Event "nccl.event" Number "Id of the event, unique in the job; calls that make and end a communicator share one";
    Parent "nccl.parent" Number "Id of the parent event";
    CommId "nccl.comm_id" Number "NCCL's id of the communicator";
    CommName "nccl.comm_name" Word "The user's name of the communicator";
    Rank "nccl.rank" Small "Rank in the communicator";
    Ranks "nccl.ranks" Small "Number of ranks of the communicator";
    Nodes "nccl.nodes" Small "Number of hosts of the communicator";
    Depth "nccl.group_depth" Signed "Group depth: 1 for a single call, 2 and more for a user's group";
    Captured "nccl.graph_captured" Flag "1: the call was captured into a CUDA graph";
    Replays "nccl.replays" Number "Replays of the captured call that NCCL reported; without: none was, though there may be some that it does not report";
    Replay "nccl.replay" Number "Which replay of the captured call (nccl.parent) it is, from 1";
    Count "nccl.count" Number "Number of elements";
    Datatype "nccl.datatype" Word "Type of an element";
    Bytes "nccl.bytes" Number "Number of elements times their size, in bytes";
    Root "nccl.root" Rank "Rank of the root";
    Stream "nccl.stream" Number "Handle of the CUDA stream";
    UserTag "nccl.user_tag" Number "The tag the user gave the operation";
    Sequence "nccl.seq" Number "Sequence number of the operation, by function and communicator";
    Algorithm "nccl.algo" Word "Algorithm";
    Protocol "nccl.proto" Word "Protocol";
    Channels "nccl.channels" Small "Number of channels";
    Warps "nccl.warps" Small "Number of warps per channel";
    KernelVariant "nccl.kernel_variant" Word "Variant of the kernel";
    Symmetric "nccl.symmetric" Flag "1: on symmetric memory";
    Timing "nccl.timing" MeasuredBy "What the interval was measured by: cupti, event, kernelch, kernelch-host, proxy, shared-kernel or enqueue";
    StartMoved "nccl.start_moved_ns" Number "Time from its launch to the start shown here: the kernel before it had not ended, in ns";
    Peer "nccl.peer" Rank "Rank of the other end";
    BytesSent "nccl.wire_bytes_sent" Number "Bytes sent on the network, as far as NCCL reported";
    BytesReceived "nccl.wire_bytes_received" Number "Bytes received from the network, as far as NCCL reported";
    AlgorithmBandwidth "nccl.algbw" Fraction "Algorithm bandwidth in bytes per second, as nccl-tests compute it";
    BusBandwidth "nccl.busbw" Fraction "Bus bandwidth in bytes per second, as nccl-tests compute it";
    MembersMissing "nccl.members_missing" Small "Sends and receives of this collective that are not in the trace";
    Unfinished "nccl.unfinished" Flag "1: it had not ended when recording did";
    Channel "nccl.channel" Small "Channel";
    Steps "nccl.steps" Signed "Number of steps";
    ChunkBytes "nccl.chunk_bytes" Signed "Bytes of a step's chunk";
    OriginPid "nccl.origin_pid" Signed "Process for which the transfer is done, where it is another one (PXN)";
    Origin "nccl.origin" Word "Rank, communicator and process for which the transfer is done, where it is another one (PXN); nccl.parent is the operation there";
    QueuedNs "nccl.queued_ns" Number "Time from the start of the proxy operation to its first progress, in ns";
    WireBytes "nccl.wire_bytes" Number "Bytes moved on the network, as far as NCCL reported";
    Suspicious "nccl.suspicious" Flag "1: the GPU's times make no sense; host times are shown";
    Closed "nccl.closed" Flag "1: NCCL did not report the end; it is shown up to where something else shows it, its operation or what came after";
    Appended "nccl.appended" Number "Number of operations that the proxy thread took";
    SyncStrategy "nccl.sync_strategy" Word "How the ranks of a copy-engine collective synchronise: MC (multicast) or UC (unicast)";
    Operations "nccl.operations" Signed "Number of copies of the batch, or of operations of the kernel";
    Phase "nccl.phase" Small "Number of the kernel's phase";
    PluginId "nccl.net_plugin" Number "NCCL's id of the network plugin and of the event's form";
    NetDevice "nccl.net_device" Signed "Number of the network device, as the plugin counts";
    QueuePair "nccl.queue_pair" Signed "Number of the queue pair";
    Opcode "nccl.net_opcode" Signed "What the network plugin did, as it numbers it";
    WorkRequest "nccl.work_request" Number "Id of the work request";
    Socket "nccl.socket" Signed "File descriptor of the socket";
    Step "nccl.step" Signed "Number of the step in its proxy operation";
    ExternalCorrelation "nccl.external_correlation" Number "The id that CUPTI reports with the work of a launch: the nccl.event of the launch or copy-engine collective";
    Correlation "cuda.correlation" Small "CUPTI's correlation id: of the call that launched it, or of the graph's launch";
    Grid "cuda.grid" Word "Blocks of the grid: x,y,z";
    Block "cuda.block" Word "Threads of a block: x,y,z";
    Registers "cuda.registers" Small "Registers per thread";
    StaticShared "cuda.static_shared_bytes" Small "Shared memory that the kernel declares, in bytes";
    DynamicShared "cuda.dynamic_shared_bytes" Small "Shared memory that the launch asks for, in bytes";
    Graph "cuda.graph" Small "CUPTI's number of the graph that launched it";
    GraphNode "cuda.graph_node" Number "CUPTI's number of its node in the graph";
    SourceGraphNode "cuda.source_graph_node" Number "CUPTI's number of the node that was captured, of which its node is a clone";
    SourceDevice "cuda.source_device" Small "Device that is copied from, where it is another one";
    DestinationDevice "cuda.destination_device" Small "Device that is copied to, where it is another one";
    SourceMemory "cuda.source_memory" Word "Kind of memory that is copied from";
    DestinationMemory "cuda.destination_memory" Word "Kind of memory that is copied to";
    Copies "cuda.copies" Small "Copies of a batch";
    Reduction "nccl.op" Word "Reduction operator: sum, prod, max, min, avg, else ncclRedOp_t's number";
    ParentCommId "nccl.parent_comm_id" Number "NCCL's id of the communicator that it was split from or grown of";
    SplitColor "nccl.split_color" Signed "The color given to ncclCommSplit";
    SplitKey "nccl.split_key" Signed "The key given to ncclCommSplit";
    Device "nccl.device" Signed "CUDA's ordinal of the communicator's device";
    Ranges "nvtx.ranges" Word "User ranges around the call when it began, on its thread or, if that has none, on the only one with ranges, outermost first, joined by ' > '";
    RangeDomain "nvtx.domain" Word "NVTX domain; absent: the default domain";
    RangeCategory "nvtx.category" Word "Name of the NVTX category, else its number";
    RangeColor "nvtx.color" Small "Color, as ARGB";
    RangePayload "nvtx.payload" Number "Payload, an unsigned integer";
    RangePayloadSigned "nvtx.payload_signed" Long "Payload, a signed integer";
    RangePayloadFloat "nvtx.payload_float" Fraction "Payload, a floating-point number";
    RangeNumber "nvtx.number" Number "The number that the name has in place of #";
    Launch "nccl.launch" Number "Id of the event of the kernel launch, nccl.event of the KernelLaunch region; absent: unknown, or a graph launched the kernel";
    Group "nccl.group" Number "Id of the event of the group that NCCL made around the call; the parent of its launches";
    Duration "nccl.duration_ns" Number "Time from the begin of what the record shows to the record, in ns";
    Cut "nccl.cut_ns" Number "Time from the begin of what the region shows to its ENTER, where another region ends that overlaps it, in ns";
    Comm "nccl.comm" CommNumber "Communicator";
    WaitGpu "nccl.wait_gpu_ns" Number "Time that the step waited for the GPU: to fill the buffer (send), or to take the data (receive)";
    WaitPeer "nccl.wait_peer_ns" Number "Time that the step waited for buffer space of the peer";
    WaitNetwork "nccl.wait_net_ns" Number "Time that the step was on the network (send), or waited for data from it (receive)";
    Flush "nccl.flush_ns" Number "Time that the step's data took to be flushed to the GPU's memory";
    Transfers "nccl.transfers" Small "Transfers of the thread in this time";
}

/// Declares a structure with some attributes of an event, for a reader. A field is `None` if the event lacks the
/// attribute or has it in an unsuitable type.
#[macro_export]
macro_rules! fields {
    ($(#[$meta:meta])* $visible:vis struct $name:ident { $($field:ident: $attribute:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        $visible struct $name<'a> {
            $(
                #[doc = concat!("See [`schema::attribute::", stringify!($attribute), "`].")]
                $visible $field: Option<$crate::schema::attribute::Parsed<$crate::schema::attribute::$attribute, &'a str>>,
            )+
        }

        impl<'a> $crate::schema::attribute::Fields<'a> for $name<'a> {
            fn take<R>(
                &mut self,
                attribute: $crate::schema::attribute::AttributeId,
                value: $crate::schema::carriers::Value<R>,
                text: impl FnOnce(R) -> Option<&'a str>,
            ) {
                match attribute {
                    $(<$crate::schema::attribute::$attribute as $crate::schema::attribute::Attribute>::ID => {
                        type Carrier = <$crate::schema::attribute::$attribute as $crate::schema::attribute::Attribute>::Carrier;
                        self.$field = <Carrier as $crate::schema::carriers::Carrier>::take(value, text);
                    })+
                    _ => {}
                }
            }
        }
    };
}

/// The values of the clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Value of the process's tick source.
    pub ticks: u64,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: u64,
    /// CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub monotonic_raw_ns: u64,
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    pub realtime_ns: u64,
}

impl Anchor {
    /// Anchors as text, separated by commas: for each its ticks and the nanoseconds of CLOCK_MONOTONIC,
    /// CLOCK_MONOTONIC_RAW and CLOCK_REALTIME.
    pub fn text(anchors: &[Self]) -> String {
        let texts = anchors.iter().map(|anchor| {
            format!("{} {} {} {}", anchor.ticks, anchor.monotonic_ns, anchor.monotonic_raw_ns, anchor.realtime_ns)
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Parses the result of [`Self::text`]; `None` for any other text.
    pub fn parse(text: &str) -> Option<Vec<Self>> {
        let anchor = |text: &str| {
            let numbers: Vec<u64> = text.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
            let [ticks, monotonic_ns, monotonic_raw_ns, realtime_ns] = numbers.try_into().ok()?;
            Some(Self { ticks, monotonic_ns, monotonic_raw_ns, realtime_ns })
        };
        text.split(", ").map(anchor).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let anchors = [1, 7].map(|ticks| Anchor { ticks, monotonic_ns: 2, monotonic_raw_ns: 3, realtime_ns: 4 });
        assert_eq!(Anchor::text(&anchors), "1 2 3 4, 7 2 3 4");
        assert_eq!(Anchor::parse("1 2 3 4, 7 2 3 4"), Some(anchors.to_vec()));
        for wrong in ["1 2 3", "1 2 3 x", "1 2 3 4 5", ""] {
            assert_eq!(Anchor::parse(wrong), None, "{wrong}");
        }
    }
}
