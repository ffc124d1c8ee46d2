//! NCCL's dumps of its topology and graphs.

use topology::{Graph, System};

use crate::pieces;

pub(crate) const SYSTEM: u8 = b'S';
pub(crate) const GRAPHS: u8 = b'G';

/// Graphs are themselves again after the archive has them as text.
pub(crate) fn read(input: &[u8]) {
    let mut system = System::default();
    let (text, pieces) = pieces::split(input);
    if let Some(graph) = str::from_utf8(text).ok().and_then(|text| text.parse::<Graph>().ok()) {
        same(&graph);
    }
    for piece in pieces {
        let Ok(text) = str::from_utf8(piece.bytes) else { continue };
        match piece.kind {
            SYSTEM => system = System::parse(text).unwrap_or(system),
            GRAPHS => Graph::parse_all(text, &system).into_iter().flatten().for_each(|graph| same(&graph)),
            _ => {}
        }
    }
    for gpu in &system.gpus {
        let _paths: Vec<_> = system.nics.iter().map(|nic| gpu.place.path(&nic.place)).collect();
    }
}

fn same(graph: &Graph) {
    assert_eq!(graph.to_string().parse::<Graph>().as_ref(), Ok(graph));
    let _first = (graph.nic(0, 0), graph.nic(u32::MAX, u32::MAX), graph.ranks(), graph.has_network());
}
