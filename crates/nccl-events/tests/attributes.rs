//! Attributes as readers get them from any writer.

use std::collections::BTreeSet;

use nccl_events::archive::Timing;
use nccl_events::schema::Value;
use nccl_events::schema::attribute::{AttributeId, Fields as _};

nccl_events::fields! {
    struct SampleFields {
        event: Event,
        peer: Peer,
        depth: Depth,
        bandwidth: AlgorithmBandwidth,
        algorithm: Algorithm,
        timing: Timing,
        suspicious: Suspicious,
        unfinished: Unfinished,
    }
}

/// The fields read from these attributes; texts are indices into a list.
fn read(attributes: &[(AttributeId, Value<usize>)]) -> SampleFields<'static> {
    const TEXTS: [&str; 3] = ["RING", "kernelch-host", "of a later version"];
    let mut found = SampleFields::default();
    for (attribute, value) in attributes {
        found.take(*attribute, *value, |text| TEXTS.get(text).copied());
    }
    found
}

#[test]
fn values_of_other_widths_are_read() {
    // Score-P's bridge writes wider, unsigned values.
    let found = read(&[
        (AttributeId::Peer, Value::U64(3)),
        (AttributeId::Unfinished, Value::U64(1)),
        (AttributeId::Depth, Value::U32(2)),
        (AttributeId::Timing, Value::String(1)),
        (AttributeId::Algorithm, Value::String(0)),
        (AttributeId::Bytes, Value::U64(9)),
    ]);
    let wanted = SampleFields {
        peer: Some(3),
        unfinished: Some(true),
        depth: Some(2),
        timing: Some(Timing::KernelChannelHost),
        algorithm: Some("RING"),
        ..SampleFields::default()
    };
    assert_eq!(found, wanted);
}

#[test]
fn what_does_not_fit_says_nothing() {
    let found = read(&[
        (AttributeId::Peer, Value::I32(-1)),
        (AttributeId::Event, Value::F64(1.0)),
        (AttributeId::Depth, Value::U64(1 << 40)),
        (AttributeId::AlgorithmBandwidth, Value::F64(f64::NAN)),
        (AttributeId::Algorithm, Value::U64(0)),
        (AttributeId::Timing, Value::String(2)),
        // A flag of a non-numeric type is ignored.
        (AttributeId::Suspicious, Value::String(0)),
        (AttributeId::Unfinished, Value::F64(1.0)),
    ]);
    assert_eq!(found, SampleFields::default());
}

#[test]
fn names_lead_back_to_attributes() {
    let names: BTreeSet<&str> = AttributeId::ALL.iter().map(|attribute| attribute.name()).collect();
    assert_eq!(names.len(), AttributeId::ALL.len(), "each name once");
    for (number, attribute) in (0..).zip(AttributeId::ALL) {
        assert_eq!(*attribute as u32, number);
        assert_eq!(AttributeId::named(attribute.name()), Some(*attribute));
        assert_eq!(attribute.c_name().to_str(), Ok(attribute.name()));
    }
    assert_eq!(AttributeId::named("nccl.start_moved_ticks"), None);
}
