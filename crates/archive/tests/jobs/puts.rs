//! Sending steps as puts into the peer's memory.

use archive::write_part;
use otf2::{Event, EventKind, LocationRef};

use std::path::Path;

use crate::every_kind::record;
use crate::job::{KEEP, new_job, unified};
use crate::read::{events, print, text};

#[test]
fn a_step_that_is_sent_is_a_put_into_the_memory_of_its_peer() {
    let out: &Path = &new_job();
    let part = record(out, 1, 4000);
    write_part(&part, &KEEP, &()).expect("written");
    let archive = unified(out);
    let definitions = archive.definitions().expect("definitions");
    let mut seen = Vec::new();
    for (location, events) in events(&archive) {
        let location = text(&definitions, definitions.locations[&location].name).to_owned();
        let mut matching = None;
        for (at, event) in events.iter().enumerate() {
            match event.kind {
                EventKind::RmaPut(put) => {
                    let comm = definitions.rma_wins[&put.win].comm;
                    let group = &definitions.groups[&definitions.comms[&comm].group];
                    let peer = group.members[usize::try_from(put.remote).expect("small")];
                    let peer = &definitions.locations[&LocationRef::new(peer)];
                    matching = Some(put.matching);
                    seen.push((location.clone(), text(&definitions, peer.name).to_owned(), put.bytes));
                }
                EventKind::RmaOpCompleteNonBlocking { matching: id, .. } => {
                    assert_eq!(matching.take(), Some(id));
                    let after = &events[at + 1];
                    let EventKind::ParameterUnsignedInt { parameter, .. } = after.kind else {
                        panic!("{after:?}");
                    };
                    let name = text(&definitions, definitions.parameters[&parameter].name);
                    assert_eq!((name, after.time), ("send step", event.time));
                }
                _ => {}
            }
        }
        assert_eq!(matching, None, "all puts complete");
    }
    let comm = "world (2)";
    let [(thread, peer, bytes)] = &seen[..] else { panic!("{seen:?}") };
    assert!(thread.starts_with("proxy thread"), "{thread}");
    assert_eq!((peer, *bytes), (&format!("NCCL {comm} rank 1 (not recorded)"), 4000));
}

#[test]
fn nothing_is_put_without_a_size_or_to_a_rank_that_is_not_there() {
    for (peer, size, without_peer) in [(1, 0, 0), (5, 4000, 1)] {
        let out: &Path = &new_job();
        let part = record(out, peer, size);
        assert_eq!(write_part(&part, &KEEP, &()).expect("written").counts.messages_without_peer, without_peer);
        let archive = unified(out);
        let all = events(&archive);
        let is_put = |event: &Event| matches!(event.kind, EventKind::RmaPut(_));
        assert!(!all.values().flatten().any(is_put), "{peer} {size}");
        print(out);
    }
}
