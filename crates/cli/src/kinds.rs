//! Which kind of NCCL event a region shows, by what the archive says of the region.

use std::collections::BTreeMap;

use nccl_events::Kind;
use otf2::RegionRef;

use crate::archive::Trace;

/// What a region shows of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// What a thread did: calls, launches, enqueueing.
    Call(Kind),
    /// An operation as it ran, on the row of its communicator.
    Operation(Kind),
    /// What belongs to operations: transfers, channels, what proxy threads do.
    Work(Kind),
}

impl Shows {
    /// The kind of event.
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Call(kind) | Self::Operation(kind) | Self::Work(kind) => kind,
        }
    }
}

/// The regions of an archive that show events of NCCL; none in archives of other writers.
pub(crate) fn regions(trace: &Trace) -> BTreeMap<RegionRef, Shows> {
    let definitions = &trace.definitions;
    let regions = definitions.regions.iter();
    let known = regions.filter_map(|(reference, region)| {
        let name = definitions.string(region.name)?;
        let description = definitions.string(region.description)?;
        Some((*reference, shows(description, name)?))
    });
    known.collect()
}

/// The regions of an archive that show what GPUs did, and whether it is a copy; none in archives of other writers.
pub(crate) fn gpu_regions(trace: &Trace) -> BTreeMap<RegionRef, bool> {
    let definitions = &trace.definitions;
    let regions = definitions.regions.iter();
    let known = regions.filter_map(|(reference, region)| {
        let is_copy = match definitions.string(region.description)? {
            "kernel" => false,
            "copy by a GPU" => true,
            _ => return None,
        };
        Some((*reference, is_copy))
    });
    known.collect()
}

fn is_p2p(function: &str) -> bool {
    matches!(function, "ncclSend" | "ncclRecv")
}

/// The description is the class of the region (`docs/REFERENCE.md` §6), the name says which of the class.
fn shows(description: &str, name: &str) -> Option<Shows> {
    Some(match (description, name) {
        ("call", "ncclGroup") => Shows::Call(Kind::GroupApi),
        ("call", name) if is_p2p(name) => Shows::Call(Kind::P2pApi),
        ("call", name) if name.starts_with("ncclComm") || name.starts_with("ncclGroup") => {
            return None;
        }
        ("call", _) => Shows::Call(Kind::CollApi),
        ("launch of a kernel", _) => Shows::Call(Kind::KernelLaunch),
        ("enqueueing of an operation", "ncclLaunchPlan") => Shows::Call(Kind::Group),
        ("enqueueing of an operation", "CeSync") => Shows::Call(Kind::CeSync),
        ("enqueueing of an operation", "CeBatch") => Shows::Call(Kind::CeBatch),
        ("enqueueing of an operation", name) => {
            let function = name.strip_suffix(" enqueue")?;
            Shows::Call(operation(function))
        }
        ("operation", name) => Shows::Operation(operation(name)),
        ("transfer by the proxy", "netSend" | "netRecv") => Shows::Work(Kind::ProxyOp),
        ("transfer by the proxy", "queued") => return None,
        (
            "transfer by the proxy",
            "ProxyStep" | "SendGPUWait" | "SendPeerWait" | "SendWait" | "RecvWait"
            | "RecvFlushWait" | "RecvGPUWait",
        ) => Shows::Work(Kind::ProxyStep),
        ("transfer by the proxy", _) => Shows::Work(Kind::NetPlugin),
        ("channel of a kernel", "ncclKernelChannel") => Shows::Work(Kind::KernelCh),
        ("channel of a kernel", _) => Shows::Work(Kind::KernelPhase),
        ("state of a proxy thread", _) => Shows::Work(Kind::ProxyCtrl),
        _ => return None,
    })
}

fn operation(function: &str) -> Kind {
    match function {
        name if is_p2p(name) => Kind::P2p,
        name if name.ends_with(" (CE)") => Kind::CeColl,
        _ => Kind::Coll,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_told_by_class_and_name() {
        for (description, name, expected) in [
            ("call", "ncclSend", Some(Shows::Call(Kind::P2pApi))),
            ("call", "ncclAllReduce", Some(Shows::Call(Kind::CollApi))),
            ("call", "ncclGroupStart", None),
            (
                "operation",
                "ncclAllReduce (CE)",
                Some(Shows::Operation(Kind::CeColl)),
            ),
            (
                "enqueueing of an operation",
                "ncclRecv enqueue",
                Some(Shows::Call(Kind::P2p)),
            ),
            (
                "enqueueing of an operation",
                "CeSync",
                Some(Shows::Call(Kind::CeSync)),
            ),
            (
                "transfer by the proxy",
                "ibSend",
                Some(Shows::Work(Kind::NetPlugin)),
            ),
            ("MPI", "MPI_Send", None),
        ] {
            assert_eq!(shows(description, name), expected, "{description}: {name}");
        }
    }
}
