//! The names that PyTorch has for NCCL's functions and types.

use nccl_events::collective::element_bytes;

/// The function of a region's name: `ncclAllGather (CE)` shows an `AllGather`.
pub(super) fn function(region: &str) -> &str {
    let name = region.split(' ').next().unwrap_or(region);
    name.strip_prefix("nccl").unwrap_or(name)
}

/// What PyTorch calls a function.
pub(super) fn collective(function: &str) -> &str {
    match function {
        "AllReduce" => "allreduce",
        "AllGather" => "_allgather_base",
        "ReduceScatter" => "_reduce_scatter_base",
        "AlltoAll" => "all_to_all",
        "Broadcast" => "broadcast",
        "Reduce" => "reduce",
        "Gather" => "gather",
        "Scatter" => "scatter",
        "Send" => "send",
        "Recv" => "recv",
        other => other,
    }
}

/// How many elements a rank gives and gets, by the count of the call.
pub(super) fn elements(function: &str, count: u64, ranks: u64, is_root: bool) -> (u64, u64) {
    let all = count.saturating_mul(ranks);
    match function {
        "AllGather" => (count, all),
        "ReduceScatter" => (all, count),
        "AlltoAll" => (all, all),
        "Gather" => (count, if is_root { all } else { 0 }),
        "Scatter" => (if is_root { all } else { 0 }, count),
        _ => (count, count),
    }
}

/// PyTorch's names of NCCL's types.
const TYPES: [(&str, &str); 12] = [
    ("ncclFloat32", "Float"),
    ("ncclFloat16", "Half"),
    ("ncclBfloat16", "BFloat16"),
    ("ncclFloat64", "Double"),
    ("ncclInt8", "Char"),
    ("ncclUint8", "Byte"),
    ("ncclInt32", "Int"),
    ("ncclInt64", "Long"),
    ("ncclUint32", "UInt32"),
    ("ncclUint64", "UInt64"),
    ("ncclFloat8e4m3", "Float8_e4m3fn"),
    ("ncclFloat8e5m2", "Float8_e5m2"),
];

/// What PyTorch calls a type.
pub(super) fn datatype(nccl: &str) -> &str {
    TYPES.iter().find(|(known, _)| *known == nccl).map_or(nccl, |(_, name)| name)
}

/// Bytes of an element of a type by PyTorch's name; none of types that NCCL lacks.
pub(super) fn bytes(datatype: &str) -> Option<u64> {
    match datatype {
        "Bool" => Some(1),
        _ => TYPES.iter().find(|(_, name)| *name == datatype).map(|(nccl, _)| element_bytes(nccl)),
    }
}

/// The name of a kernel of which NCCL said what it does. Without the reduction and the types, which it did not say.
pub(super) fn kernel(function: &str, algorithm: Option<&str>, protocol: Option<&str>) -> String {
    let Some(family) = family(function).filter(|family| *family != MESSAGES) else {
        return "ncclDevKernel_SendRecv".to_owned();
    };
    let mut name = format!("ncclDevKernel_{family}");
    for word in [algorithm, protocol].into_iter().flatten() {
        name.push('_');
        name.push_str(word);
    }
    name
}

/// Kernels of sends and receives, and of collectives that are made of them.
const MESSAGES: &str = "SendRecv";

/// Which kernels run a function, by the name of the function, of a kernel, or of one of PyTorch's collectives.
pub(super) fn family(name: &str) -> Option<&'static str> {
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    let families = [
        ("allreduce", "AllReduce"),
        ("reducescatter", "ReduceScatter"),
        ("allgather", "AllGather"),
        ("send", MESSAGES),
        ("recv", MESSAGES),
        ("alltoall", MESSAGES),
        ("broadcast", "Broadcast"),
        ("gather", MESSAGES),
        ("scatter", MESSAGES),
        ("reduce", "Reduce"),
        ("barrier", "AllReduce"),
    ];
    families.iter().find(|(part, _)| letters.contains(part)).map(|(_, family)| *family)
}

/// Whether a kernel is NCCL's, by the name that the profiler gives.
pub(super) fn is_nccl(kernel: &str) -> bool {
    kernel.starts_with("nccl") && kernel.contains("Kernel")
}

#[cfg(test)]
mod tests {
    use super::{family, is_nccl, kernel};

    #[test]
    fn names_of_kernels_say_their_function() {
        let names = [
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Some("AllReduce")),
            ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", Some("Broadcast")),
            ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", Some("ReduceScatter")),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Some("SendRecv")),
            ("ncclDevKernel_Generic_1", None),
            ("_allgather_base", Some("AllGather")),
            ("all_to_allv", Some("SendRecv")),
        ];
        for (name, wanted) in names {
            assert_eq!(family(name), wanted, "{name}");
        }
    }

    #[test]
    fn names_that_are_made_are_nccl_s() {
        assert_eq!(kernel("AllReduce", Some("RING"), Some("LL")), "ncclDevKernel_AllReduce_RING_LL");
        assert_eq!(kernel("AlltoAll", None, None), "ncclDevKernel_SendRecv");
        assert!(is_nccl(&kernel("Send", None, None)) && !is_nccl("void at::native::nccl"));
    }
}
