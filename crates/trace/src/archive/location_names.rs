//! The names of locations.

use crate::archive::communicators::Communicator;
use crate::part::manifest::{Connection, LocationDefinition, LocationKind, LocationOwner};
use nccl_events::ids::index;
use process_model::links::pxn::placeholder;

/// The name of a location. `comms` has the archive's communicators by the part's numbers; `origin` is the rank of
/// another process that the work was for, if known.
pub(crate) fn location_name(location: &LocationDefinition, comms: &[&Communicator], origin: Option<&str>) -> String {
    let name = match &location.kind {
        LocationKind::Thread { thread_id, is_callback, .. } => {
            let what = match is_callback {
                true => "CUDA callback thread",
                false => "API thread",
            };
            with_id(what, *thread_id)
        }
        LocationKind::Proxy { thread_id } => with_id("proxy thread", *thread_id),
        LocationKind::Communicator { comm, rank, .. } => {
            let comm = comms.get(index(*comm));
            let name = comm.map_or("?", |comm| comm.name.as_str());
            let ranks = comm.map_or(0, |comm| comm.locations.len());
            format!("NCCL {name} rank {rank}/{ranks}")
        }
        LocationKind::Stream { context, stream, is_ambiguous, .. } => match is_ambiguous {
            false => format!("CUDA stream {stream}"),
            true => format!("CUDA stream {stream} of context {context}"),
        },
        LocationKind::Channel { owner, channel } => {
            format!("NCCL {} ch{channel:02}", owner_name(owner, comms, origin))
        }
        LocationKind::Ranges { domain } if domain.is_empty() => "NVTX".to_owned(),
        LocationKind::Ranges { domain } => format!("NVTX {domain}"),
        LocationKind::Net(connection) => connection_name(connection, comms, origin),
        LocationKind::Step { connection, slot } => {
            format!("{} s{slot}", connection_name(connection, comms, origin))
        }
        LocationKind::Plugin { connection, slot } => {
            format!("{} s{slot} plugin", connection_name(connection, comms, origin))
        }
    };
    match location.sibling {
        0 => name,
        sibling => format!("{name} #{}", sibling + 1),
    }
}

fn with_id(what: &str, thread_id: u32) -> String {
    match thread_id {
        0 => what.to_owned(),
        thread_id => format!("{what} {thread_id}"),
    }
}

fn owner_name(owner: &LocationOwner, comms: &[&Communicator], origin: Option<&str>) -> String {
    match *owner {
        LocationOwner::Rank { comm, rank, .. } => {
            let name = comms.get(index(comm)).map_or("?", |comm| comm.name.as_str());
            format!("{name} r{rank}")
        }
        LocationOwner::Foreign { context, own: false } => origin.map_or_else(|| placeholder(context), str::to_owned),
        LocationOwner::Foreign { context, own: true } => format!("<lost init {context:#x}>"),
    }
}

fn connection_name(connection: &Connection, comms: &[&Communicator], origin: Option<&str>) -> String {
    let Connection { owner, channel, send, peer } = connection;
    let direction = if *send { "send→" } else { "recv←" };
    let owner = owner_name(owner, comms, origin);
    format!("net {owner} ch{channel:02} {direction}{peer}")
}
