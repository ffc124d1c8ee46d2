//! PyTorch's names for NCCL's functions and types.

use nccl_events::collective::{Collective, Function, element_bytes};

pub(super) fn collective(region: &str) -> &str {
    let Some(function) = Function::of_region(region) else {
        return region.strip_prefix("nccl").unwrap_or(region);
    };
    match function {
        Function::Collective(Collective::AllReduce) => "allreduce",
        Function::Collective(Collective::AllGather) => "_allgather_base",
        Function::Collective(Collective::ReduceScatter) => "_reduce_scatter_base",
        Function::Collective(Collective::AlltoAll) => "all_to_all",
        Function::Collective(Collective::Broadcast) => "broadcast",
        Function::Collective(Collective::Reduce) => "reduce",
        Function::Collective(Collective::Gather) => "gather",
        Function::Collective(Collective::Scatter) => "scatter",
        Function::Send => "send",
        Function::Recv => "recv",
        // PyTorch has no name for this function.
        Function::SendRecv => function.name(),
    }
}

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

pub(super) fn datatype(nccl: &str) -> &str {
    TYPES.iter().find(|(known, _)| *known == nccl).map_or(nccl, |(_, name)| name)
}

/// Element size in bytes of a type by PyTorch's name; `None` for types that NCCL lacks.
pub(super) fn bytes(datatype: &str) -> Option<u64> {
    match datatype {
        "Bool" => Some(1),
        _ => TYPES.iter().find(|(_, name)| *name == datatype).map(|(nccl, _)| element_bytes(nccl)),
    }
}

/// The name of a kernel from what NCCL reported: without the reduction and the types, which it did not report.
pub(super) fn kernel(region: &str, algorithm: Option<&str>, protocol: Option<&str>) -> String {
    let family = family(region).unwrap_or(Function::SendRecv);
    let mut name = format!("ncclDevKernel_{}", family.name());
    if family != Function::SendRecv {
        for word in [algorithm, protocol].into_iter().flatten() {
            name.push('_');
            name.push_str(word);
        }
    }
    name
}

/// The function whose kernels run `function`: sends, receives and functions made of them share one.
const fn kernels(function: Function) -> Function {
    match function {
        Function::Collective(Collective::AlltoAll | Collective::Gather | Collective::Scatter)
        | Function::Send
        | Function::Recv
        | Function::SendRecv => Function::SendRecv,
        Function::Collective(
            Collective::AllReduce
            | Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Broadcast
            | Collective::Reduce,
        ) => function,
    }
}

/// The function whose kernels run a region, a kernel, or a collective named in PyTorch's way.
pub(super) fn family(name: &str) -> Option<Function> {
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    let parts = [
        ("allreduce", Function::Collective(Collective::AllReduce)),
        ("reducescatter", Function::Collective(Collective::ReduceScatter)),
        ("allgather", Function::Collective(Collective::AllGather)),
        ("send", Function::Send),
        ("recv", Function::Recv),
        ("alltoall", Function::Collective(Collective::AlltoAll)),
        ("broadcast", Function::Collective(Collective::Broadcast)),
        ("gather", Function::Collective(Collective::Gather)),
        ("scatter", Function::Collective(Collective::Scatter)),
        ("reduce", Function::Collective(Collective::Reduce)),
        ("barrier", Function::Collective(Collective::AllReduce)),
    ];
    parts.iter().find(|(part, _)| letters.contains(part)).map(|(_, function)| kernels(*function))
}

pub(super) fn is_nccl(kernel: &str) -> bool {
    kernel.starts_with("nccl") && kernel.contains("Kernel")
}

#[cfg(test)]
mod tests {
    use super::{Function, family, is_nccl, kernel};

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
            assert_eq!(family(name).map(Function::name), wanted, "{name}");
        }
    }

    #[test]
    fn names_that_are_made_are_nccl_s() {
        assert_eq!(kernel("AllReduce", Some("RING"), Some("LL")), "ncclDevKernel_AllReduce_RING_LL");
        assert_eq!(kernel("AlltoAll", None, None), "ncclDevKernel_SendRecv");
        assert!(is_nccl(&kernel("Send", None, None)) && !is_nccl("void at::native::nccl"));
    }
}
