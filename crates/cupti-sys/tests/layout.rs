//! Compares this crate's numbers with those of NVIDIA's headers in all releases listed in `layout.json`.
//!
//! `cargo xtask cupti-layout` generates that file from the headers, and compares it with them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use cupti_sys::code::Code;
use cupti_sys::constants;
use cupti_sys::functions::SubscriberParams;
use cupti_sys::record;
use serde::Deserialize;

#[derive(Deserialize)]
struct Headers {
    records: BTreeMap<String, Structure>,
    constants: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
struct Structure {
    name: String,
    size: usize,
    fields: BTreeMap<String, usize>,
}

fn releases() -> BTreeMap<String, Headers> {
    let releases: BTreeMap<String, Headers> = serde_json::from_str(include_str!("layout.json")).unwrap();
    for wanted in ["11.8.", "12.0.", "12.4.", "12.9.", "13.0.", "13.1.", "13.3.", "13.5."] {
        assert!(releases.keys().any(|release| release.starts_with(wanted)), "{wanted}");
    }
    releases
}

#[test]
fn every_field_is_where_it_is_read() {
    let mut absent: BTreeSet<&str> = BTreeSet::new();
    for (release, headers) in releases() {
        for layout in record::LAYOUTS {
            let structure = &headers.records[layout.record];
            for (field, offset, bytes) in layout.fields {
                match structure.fields.get(*field) {
                    Some(real) => {
                        assert_eq!(offset, real, "{release}: {}.{field}", structure.name);
                        assert!(offset + bytes <= structure.size, "{release}: {field}");
                    }
                    None => {
                        // The field must not be found in a record of that release's size.
                        assert!(*offset >= structure.size, "{release}: {}.{field} would be read", structure.name);
                        absent.insert(field);
                    }
                }
            }
        }
    }
    assert_eq!(absent.into_iter().collect::<Vec<_>>(), ["copyCount", "sourceGraphNodeId"]);
}

#[test]
fn records_only_grow() {
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for headers in releases().into_values() {
        for (record, structure) in headers.records {
            let before = sizes.insert(record, structure.size).unwrap_or(0);
            assert!(structure.size >= before, "{}", structure.name);
            assert_eq!(structure.size % 8, 0, "{}", structure.name);
        }
    }
    assert_eq!(sizes["kernel"], 248);
}

#[test]
fn every_number_is_that_of_the_headers() {
    let codes = Code::ALL.iter().map(|(name, code)| (*name, u32::try_from(code.0).unwrap()));
    let ours: BTreeMap<&str, u32> = constants::ALL.iter().copied().chain(codes).collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (release, headers) in releases() {
        for (name, value) in headers.constants {
            if name != "CUPTI_API_VERSION" {
                assert_eq!(ours.get(name.as_str()), Some(&value), "{release}: {name}");
                seen.insert(name);
            }
        }
    }
    for name in ours.keys() {
        assert!(seen.contains(*name), "no release has {name}");
    }
}

#[test]
fn the_structure_that_is_filled_is_that_of_releases_with_the_whole_family() {
    let mut checked = 0;
    for (release, headers) in releases() {
        if headers.constants["CUPTI_API_VERSION"] < constants::VERSION_SUBSCRIBER_FUNCTIONS {
            continue;
        }
        let structure = &headers.records["subscriber_params"];
        assert_eq!(structure.size, size_of::<SubscriberParams>(), "{release}");
        for (field, offset) in [
            ("structSize", offset_of!(SubscriberParams, struct_size)),
            ("subscriberName", offset_of!(SubscriberParams, subscriber_name)),
            ("oldSubscriberName", offset_of!(SubscriberParams, old_subscriber_name)),
            ("oldSubscriberSize", offset_of!(SubscriberParams, old_subscriber_size)),
            ("allowMultipleSubscribers", offset_of!(SubscriberParams, allow_multiple_subscribers)),
        ] {
            assert_eq!(structure.fields[field], offset, "{release}: {field}");
        }
        checked += 1;
    }
    assert!(checked >= 2);
}
