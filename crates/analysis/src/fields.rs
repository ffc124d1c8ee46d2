//! The attributes of NCCL's events that readers need.

use nccl_events::schema::Value;
use nccl_events::schema::attribute::AttributeId;
use otf2::{AttributeRef, AttributeValue, Definitions};

nccl_events::fields! {
    /// The attributes that statistics, checks and exports need.
    pub struct Fields {
        event: Event,
        parent: Parent,
        external_correlation: ExternalCorrelation,
        timing: Timing,
        bytes: Bytes,
        count: Count,
        datatype: Datatype,
        algorithm: Algorithm,
        protocol: Protocol,
        queued_ns: QueuedNs,
        root: Root,
        peer: Peer,
        channel: Channel,
        sequence: Sequence,
        replay: Replay,
        start_moved_ns: StartMoved,
        is_suspicious: Suspicious,
        is_unfinished: Unfinished,
        algorithm_bandwidth: AlgorithmBandwidth,
        bus_bandwidth: BusBandwidth,
        comm_id: CommId,
        comm_name: CommName,
        rank: Rank,
        ranges: Ranges,
        range_number: RangeNumber,
    }
}

nccl_events::fields! {
    /// Which event it is: quicker to read than [`Fields`].
    pub struct Ids {
        event: Event,
        parent: Parent,
    }
}

/// The attributes of an archive. In merged archives, this project and Score-P both use some names.
#[derive(Debug)]
pub(crate) struct Attributes {
    known: Vec<Option<AttributeId>>,
}

impl Attributes {
    pub(crate) fn of(definitions: &Definitions) -> Self {
        let mut known = Vec::new();
        for (reference, attribute) in &definitions.attributes {
            // OTF2 requires ids without gaps; an attribute that breaks the rule is not recognised.
            if usize::try_from(reference.get()) == Ok(known.len()) {
                known.push(definitions.string(attribute.name).and_then(AttributeId::named));
            }
        }
        Self { known }
    }

    pub(crate) fn get(&self, attribute: AttributeRef) -> Option<AttributeId> {
        self.known.get(usize::try_from(attribute.get()).ok()?).copied()?
    }

    pub(crate) fn add<'a>(
        &self,
        definitions: &'a Definitions,
        attributes: &[(AttributeRef, AttributeValue)],
        fields: &mut impl nccl_events::schema::attribute::Fields<'a>,
    ) {
        for (attribute, value) in attributes {
            if let (Some(attribute), Some(value)) = (self.get(*attribute), value_of(*value)) {
                fields.take(attribute, value, |text| definitions.string(text));
            }
        }
    }
}

pub(crate) fn value_of(value: AttributeValue) -> Option<Value<otf2::StringRef>> {
    Some(match value {
        AttributeValue::U8(number) => Value::U8(number),
        AttributeValue::U16(number) => Value::U32(number.into()),
        AttributeValue::U32(number) => Value::U32(number),
        AttributeValue::U64(number) => Value::U64(number),
        AttributeValue::I32(number) => Value::I32(number),
        AttributeValue::I64(number) => Value::I64(number),
        AttributeValue::F64(number) => Value::F64(number),
        AttributeValue::String(text) => Value::String(text),
        AttributeValue::Location(location) => Value::Location(location.get()),
        _ => return None,
    })
}
