//! The attributes of events' fields, as `nccl_events::event_kinds!` declares them, in the order of the declaration.

use crate::attributes::AttributeWriter;
use model::tables::EventRow;
use nccl_events::event::FIELDS;
use nccl_events::schema::attribute;
use nccl_events::schema::attribute::AttributeId;

macro_rules! by_hand {
    ($($attribute:ident)+) => {
        /// The attributes that no field has.
        const BY_HAND: &[AttributeId] = &[$(AttributeId::$attribute),+];
    };
}

by_hand! {
    Event Parent Group Duration Cut Comm WaitGpu WaitPeer WaitNetwork Flush Transfers Launch CommId CommName Rank Nodes Replays Replay Timing StartMoved BytesSent BytesReceived
    AlgorithmBandwidth BusBandwidth MembersMissing Unfinished Origin QueuedNs WireBytes Suspicious Closed Appended
    ExternalCorrelation Correlation Grid Block Registers StaticShared DynamicShared Graph GraphNode SourceGraphNode
    SourceDevice DestinationDevice SourceMemory DestinationMemory Copies Reduction ParentCommId SplitColor SplitKey
    Device Ranges RangeDomain RangeCategory RangeColor RangePayload RangePayloadSigned RangePayloadFloat RangeNumber
}

// The error names an attribute that neither a field nor the list has.
const _: () = {
    let mut written = numbers(BY_HAND);
    let mut fields = FIELDS;
    while let [field, others @ ..] = fields {
        written |= numbers(field.attributes);
        fields = others;
    }
    let mut all = AttributeId::ALL;
    while let [attribute, others @ ..] = all {
        assert!(written & numbers(&[*attribute]) != 0, "{}", attribute.name());
        all = others;
    }
};

/// A bit for each attribute.
const fn numbers(mut attributes: &[AttributeId]) -> u128 {
    let mut numbers = 0;
    while let [attribute, others @ ..] = attributes {
        numbers |= 1 << *attribute as u32;
        attributes = others;
    }
    numbers
}

macro_rules! writing {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$strings:ident>)? = $number:literal since $table:ident, $words:literal words {$(
            $(#[$about:meta])* $field:ident: $type:tt [$($place:tt)+] $label:literal $($style:ident)?
                => $($attribute:ident)+ $([$($rule:tt)+])?,
        )*}
    )*) => {
        impl AttributeWriter<'_, '_> {
            /// Adds the attributes of an event's fields.
            pub(super) fn fields(&mut self, event: EventRow) -> otf2::Result<()> {
                match event {
                    $(EventRow::$name(row) => {
                        let event = &self.model.tables[row];
                        let _no_fields = event;
                        $(write!(self, event, $field $type => $($attribute)+ $([$($rule)+])?);)*
                    })*
                }
                Ok(())
            }
        }
    };
}

macro_rules! write {
    ($to:ident, $event:ident, $field:ident $type:tt => hidden [$why:literal]) => {};
    ($to:ident, $event:ident, $field:ident S => $attribute:ident) => {
        $to.name(attribute::$attribute, $event.fields.$field)?;
    };
    ($to:ident, $event:ident, $field:ident $type:tt => $attribute:ident) => {
        $to.add(attribute::$attribute, $event.fields.$field.into())?;
    };
    ($to:ident, $event:ident, $field:ident $type:tt => $attribute:ident [unless empty]) => {
        $to.add_unless_empty(attribute::$attribute, $event.fields.$field.into())?;
    };
    ($to:ident, $event:ident, $field:ident $type:tt => $($attribute:ident)+ [by $function:ident($($of:ident),+)]) => {
        $to.$function($($event.fields.$of),+)?;
    };
    ($to:ident, $event:ident, $field:ident $type:tt => $($attribute:ident)+ [by $function:ident]) => {
        $to.$function($event)?;
    };
}

nccl_events::event_kinds! { writing }
