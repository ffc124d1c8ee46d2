//! The attributes of NCCL's that readers ask for.

use otf2::{AttributeRef, AttributeValue, Definitions};

/// An attribute that readers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Event,
    Parent,
    ExternalCorrelation,
    Timing,
    Bytes,
    Count,
    Datatype,
    QueuedNs,
    Root,
    Peer,
    Channel,
    Sequence,
    Replay,
    StartMoved,
    Suspicious,
    Unfinished,
    AlgorithmBandwidth,
    BusBandwidth,
}

const WANTED: [(&str, Wanted); 18] = [
    ("nccl.event", Wanted::Event),
    ("nccl.parent", Wanted::Parent),
    ("nccl.external_correlation", Wanted::ExternalCorrelation),
    ("nccl.timing", Wanted::Timing),
    ("nccl.bytes", Wanted::Bytes),
    ("nccl.count", Wanted::Count),
    ("nccl.datatype", Wanted::Datatype),
    ("nccl.queued_ns", Wanted::QueuedNs),
    ("nccl.root", Wanted::Root),
    ("nccl.peer", Wanted::Peer),
    ("nccl.channel", Wanted::Channel),
    ("nccl.seq", Wanted::Sequence),
    ("nccl.replay", Wanted::Replay),
    ("nccl.start_moved_ns", Wanted::StartMoved),
    ("nccl.suspicious", Wanted::Suspicious),
    ("nccl.unfinished", Wanted::Unfinished),
    ("nccl.algbw", Wanted::AlgorithmBandwidth),
    ("nccl.busbw", Wanted::BusBandwidth),
];

/// What an event says, as `docs/MAPPING.md` §5 defines it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fields<'a> {
    /// Its id.
    pub event: Option<u64>,
    /// The id of its parent.
    pub parent: Option<u64>,
    /// CUPTI's external id of its launch.
    pub external_correlation: Option<u64>,
    /// What its interval was measured by.
    pub timing: Option<&'a str>,
    /// Its size.
    pub bytes: Option<u64>,
    /// Number of elements.
    pub count: Option<u64>,
    /// Type of an element.
    pub datatype: Option<&'a str>,
    /// How long a transfer waited for its first progress.
    pub queued_ns: u64,
    /// Rank of the root.
    pub root: Option<u32>,
    /// Rank of the other end.
    pub peer: Option<u32>,
    /// Channel.
    pub channel: Option<u32>,
    /// Sequence number, by function and communicator.
    pub sequence: Option<u64>,
    /// Which replay of a captured call it is.
    pub replay: Option<u64>,
    /// By how much its start was moved.
    pub start_moved_ns: u64,
    /// Whether its GPU times make no sense.
    pub is_suspicious: bool,
    /// Whether it had not ended when recording did.
    pub is_unfinished: bool,
    /// Algorithm bandwidth in bytes per second.
    pub algorithm_bandwidth: Option<f64>,
    /// Bus bandwidth in bytes per second.
    pub bus_bandwidth: Option<f64>,
}

/// The attributes of an archive.
#[derive(Debug)]
pub(crate) struct Attributes {
    /// By number.
    wanted: Vec<Option<Wanted>>,
}

impl Attributes {
    pub(crate) fn of(definitions: &Definitions) -> Self {
        let mut wanted = Vec::new();
        for (reference, attribute) in &definitions.attributes {
            let name = definitions.string(attribute.name);
            let known = WANTED.iter().find(|(known, _)| Some(*known) == name);
            // Numbers without gaps are a rule of OTF2; what breaks it says nothing here.
            if usize::try_from(reference.get()) == Ok(wanted.len()) {
                wanted.push(known.map(|(_, wanted)| *wanted));
            }
        }
        Self { wanted }
    }

    /// Adds what the attributes of an event say.
    pub(crate) fn add<'a>(
        &self,
        definitions: &'a Definitions,
        attributes: &[(AttributeRef, AttributeValue)],
        fields: &mut Fields<'a>,
    ) {
        for (attribute, value) in attributes {
            let at = usize::try_from(attribute.get()).unwrap_or(usize::MAX);
            let Some(Some(wanted)) = self.wanted.get(at) else {
                continue;
            };
            let number = unsigned(*value);
            match wanted {
                Wanted::Event => fields.event = number,
                Wanted::Parent => fields.parent = number,
                Wanted::ExternalCorrelation => fields.external_correlation = number,
                Wanted::Timing => fields.timing = text(definitions, *value),
                Wanted::Bytes => fields.bytes = number,
                Wanted::Count => fields.count = number,
                Wanted::Datatype => fields.datatype = text(definitions, *value),
                Wanted::QueuedNs => fields.queued_ns = number.unwrap_or(0),
                Wanted::Root => fields.root = rank(*value),
                Wanted::Peer => fields.peer = rank(*value),
                Wanted::Channel => fields.channel = rank(*value),
                Wanted::Sequence => fields.sequence = number,
                Wanted::Replay => fields.replay = number,
                Wanted::StartMoved => fields.start_moved_ns = number.unwrap_or(0),
                Wanted::Suspicious => fields.is_suspicious = number != Some(0),
                Wanted::Unfinished => fields.is_unfinished = number == Some(1),
                Wanted::AlgorithmBandwidth => fields.algorithm_bandwidth = fraction(*value),
                Wanted::BusBandwidth => fields.bus_bandwidth = fraction(*value),
            }
        }
    }
}

fn text(definitions: &Definitions, value: AttributeValue) -> Option<&str> {
    match value {
        AttributeValue::String(text) => definitions.string(text),
        _ => None,
    }
}

/// A small number; none where it is negative, which NCCL has for none.
fn rank(value: AttributeValue) -> Option<u32> {
    match value {
        AttributeValue::I32(number) => u32::try_from(number).ok(),
        other => u32::try_from(unsigned(other)?).ok(),
    }
}

/// The value of a property or attribute that is a number without a sign; none of others.
#[must_use]
pub fn unsigned(value: AttributeValue) -> Option<u64> {
    match value {
        AttributeValue::U64(number) => Some(number),
        AttributeValue::U32(number) => Some(number.into()),
        AttributeValue::U16(number) => Some(number.into()),
        AttributeValue::U8(number) => Some(number.into()),
        _ => None,
    }
}

fn fraction(value: AttributeValue) -> Option<f64> {
    match value {
        AttributeValue::F64(number) if number.is_finite() => Some(number),
        _ => None,
    }
}
