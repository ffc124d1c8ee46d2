//! Where the members of each version's descriptors lie: a reading of NCCL's headers that shares nothing with the
//! bindings of the plugin, so that each checks the other.

use crate::interface::{Kind, Version};

#[derive(Clone, Copy)]
pub(crate) enum Type {
    /// A number of so many bytes; flags, pointers and `size_t`, too.
    Bytes(usize),
    Text,
    /// Version 1: the number of a name.
    Number(fn(&str) -> u8),
}

pub(crate) type Member = (&'static str, usize, Type);

const B1: Type = Type::Bytes(1);
const B4: Type = Type::Bytes(4);
const B8: Type = Type::Bytes(8);
const TEXT: Type = Type::Text;

/// Behind the type, the parent and the rank, which all versions have at the same place.
pub(crate) const PARENT: usize = 8;
pub(crate) const RANK: usize = 16;

/// `sizeof` of each version's descriptor.
const SIZES: [usize; 7] = [120, 128, 120, 104, 112, 112, 136];

/// Kind, first and last version, members.
type Layout = (Kind, u8, u8, &'static [Member]);

#[rustfmt::skip]
const COLL_V4: [Member; 11] = [
    ("sequence", 24, B8), ("func", 32, TEXT), ("send_buffer", 40, B8), ("recv_buffer", 48, B8), ("count", 56, B8),
    ("root", 64, B4), ("datatype", 72, TEXT), ("channels", 80, B1), ("warps", 81, B1), ("algorithm", 88, TEXT),
    ("protocol", 96, TEXT),
];
#[rustfmt::skip]
const COLL_V2: [Member; 9] = [
    ("comm_name", 24, TEXT), ("comm_hash", 32, B8), ("sequence", 40, B8), ("func", 48, TEXT),
    ("send_buffer", 56, B8), ("recv_buffer", 64, B8), ("count", 72, B8), ("root", 80, B4), ("datatype", 88, TEXT),
];

/// All rows that name a kind and a version together list the members.
#[rustfmt::skip]
const LAYOUTS: &[Layout] = &[
    (Kind::COLL, 1, 1, &[
        ("comm_name", 24, TEXT), ("comm_hash", 32, B8), ("sequence", 40, B8), ("func", 48, Type::Number(func)),
        ("send_buffer", 56, B8), ("recv_buffer", 64, B8), ("count", 72, B8), ("root", 80, B4),
        ("datatype", 84, Type::Number(datatype)), ("op", 88, B4), ("traffic_bytes", 96, B8), ("channels", 104, B1),
        ("warps", 105, B1), ("algorithm", 106, Type::Number(algorithm)), ("protocol", 107, Type::Number(protocol)),
        ("is_collnet", 108, B4), ("is_nvls", 112, B4),
    ]),
    (Kind::COLL, 2, 3, &COLL_V2),
    (Kind::COLL, 2, 2, &[
        ("traffic_bytes", 96, B8), ("channels", 104, B1), ("warps", 105, B1), ("algorithm", 112, TEXT),
        ("protocol", 120, TEXT),
    ]),
    (Kind::COLL, 3, 3, &[("channels", 96, B1), ("warps", 97, B1), ("algorithm", 104, TEXT), ("protocol", 112, TEXT)]),
    (Kind::COLL, 4, 7, &COLL_V4),
    (Kind::COLL, 5, 7, &[("parent_group", 104, B8)]),
    (Kind::COLL, 7, 7, &[("kernel_variant", 112, TEXT), ("is_symmetric", 120, B1), ("user_tag", 128, B8)]),
    (Kind::P2P, 1, 3, &[
        ("comm_name", 24, TEXT), ("comm_hash", 32, B8), ("buffer", 48, B8), ("count", 64, B8), ("peer", 72, B4),
    ]),
    (Kind::P2P, 1, 1, &[("func", 40, Type::Number(func)), ("datatype", 56, Type::Number(datatype))]),
    (Kind::P2P, 2, 3, &[("func", 40, TEXT), ("datatype", 56, TEXT)]),
    (Kind::P2P, 4, 7, &[
        ("func", 24, TEXT), ("buffer", 32, B8), ("datatype", 40, TEXT), ("count", 48, B8), ("peer", 56, B4),
        ("channels", 60, B1),
    ]),
    (Kind::P2P, 5, 7, &[("parent_group", 64, B8)]),
    (Kind::P2P, 7, 7, &[("user_tag", 72, B8)]),
    (Kind::PROXY_OP, 1, 7, &[
        ("pid", 24, B4), ("channel", 28, B1), ("peer", 32, B4), ("steps", 36, B4), ("chunk_bytes", 40, B4),
        ("is_send", 44, B4),
    ]),
    (Kind::PROXY_STEP, 1, 7, &[("step", 24, B4)]),
    (Kind::KERNEL_CH, 3, 7, &[("channel", 24, B1)]),
    (Kind::KERNEL_CH, 4, 7, &[("gpu_ns", 32, B8)]),
    (Kind::NET_PLUGIN, 3, 7, &[("net_id", 24, B8), ("net_data", 32, B8)]),
    (Kind::GROUP_API, 5, 7, &[("graph_captured", 24, B1), ("depth", 28, B4)]),
    (Kind::COLL_API, 5, 7, &[
        ("func", 24, TEXT), ("count", 32, B8), ("datatype", 40, TEXT), ("root", 48, B4), ("stream", 56, B8),
        ("graph_captured", 64, B1),
    ]),
    (Kind::COLL_API, 7, 7, &[("user_tag", 72, B8)]),
    (Kind::P2P_API, 5, 7, &[
        ("func", 24, TEXT), ("count", 32, B8), ("datatype", 40, TEXT), ("stream", 48, B8),
        ("graph_captured", 56, B1),
    ]),
    (Kind::P2P_API, 7, 7, &[("user_tag", 64, B8)]),
    (Kind::KERNEL_LAUNCH, 5, 7, &[("stream", 24, B8)]),
    (Kind::CE_COLL, 6, 7, &[
        ("sequence", 24, B8), ("func", 32, TEXT), ("send_buffer", 40, B8), ("recv_buffer", 48, B8),
        ("count", 56, B8), ("root", 64, B4), ("datatype", 72, TEXT), ("sync_strategy", 80, TEXT),
        ("intra_batch_sync", 88, B1), ("batch_size", 92, B4), ("batches", 96, B4), ("ce_sequence", 100, B4),
        ("stream", 104, B8),
    ]),
    (Kind::CE_COLL, 7, 7, &[("user_tag", 112, B8)]),
    (Kind::CE_SYNC, 6, 7, &[("is_complete", 24, B1), ("ranks", 28, B4)]),
    (Kind::CE_BATCH, 6, 7, &[("operations", 24, B4), ("bytes", 32, B8), ("intra_sync", 40, B1)]),
    (Kind::KERNEL_PHASE, 7, 7, &[
        ("channel", 24, B1), ("phase", 25, B1), ("phase_name", 32, TEXT), ("gpu_ns", 40, B8),
    ]),
];

pub(crate) fn size(version: Version) -> usize {
    SIZES[usize::from(version.number()) - 1]
}

pub(crate) fn members(version: Version, kind: Kind) -> impl Iterator<Item = &'static Member> {
    let is_of = move |layout: &&Layout| layout.0 == kind && (layout.1..=layout.2).contains(&version.number());
    LAYOUTS.iter().filter(is_of).flat_map(|layout| layout.3)
}

pub(crate) fn offset(version: Version, kind: Kind, name: &str) -> Option<usize> {
    let mut members = members(version, kind);
    members.find(|(known, ..)| *known == name).map(|(_, at, _)| *at)
}

/// The names of all members, and what they are in the newest version that has them.
pub(crate) fn names() -> impl Iterator<Item = &'static Member> {
    LAYOUTS.iter().rev().flat_map(|layout| layout.3)
}

// The numbers that version 1 has in place of strings, as NCCL's shim finds them: an unknown function becomes Send,
// algorithm PAT, protocol SIMPLE, datatype Float64 (also `ncclUint8`, which the shim forgets).

fn func(name: &str) -> u8 {
    number(name, "Broadcast Reduce AllGather ReduceScatter AllReduce SendRecv - Recv", 6)
}

fn algorithm(name: &str) -> u8 {
    number(name, "TREE RING COLLNET_DIRECT COLLNET_CHAIN NVLS NVLS_TREE", 6)
}

fn protocol(name: &str) -> u8 {
    number(name, "LL LL128", 2)
}

fn datatype(name: &str) -> u8 {
    let names = "ncclInt8 - ncclInt32 ncclUint32 ncclInt64 ncclUint64 ncclFloat16 ncclFloat32 - ncclBfloat16";
    number(name, names, 8)
}

fn number(text: &str, names: &str, other: u8) -> u8 {
    let place = names.split(' ').position(|name| name == text && name != "-");
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or(other)
}
