//! A line of a recorded stream, as JSON has it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::script::command::NetData;
use crate::script::net::NetBlock;

/// A line; what a kind of record does not have is absent.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Line<'a> {
    pub(super) record_type: Option<&'a str>,
    #[serde(rename = "type")]
    pub(super) kind: Option<&'a str>,
    pub(super) func: Option<&'a str>,
    pub(super) comm_id: Option<u64>,
    pub(super) rank: Option<i32>,
    #[serde(borrow)]
    pub(super) start: Option<RawMoment<'a>>,
    #[serde(borrow)]
    pub(super) stop: Option<RawMoment<'a>>,
    pub(super) event_addr: Option<&'a str>,
    pub(super) parent_obj: Option<&'a str>,
    #[serde(borrow)]
    pub(super) details: Option<Details<'a>>,
    // States have these on the line itself.
    #[serde(borrow)]
    pub(super) ts: Option<&'a RawValue>,
    pub(super) tid: Option<i64>,
    pub(super) id: Option<u32>,
    pub(super) p_timer: Option<u64>,
    pub(super) appended_proxy_ops: Option<i32>,
    pub(super) trans_size: Option<u64>,
    pub(super) steps: Option<i32>,
    pub(super) no_args: bool,
    // Kernels.
    pub(super) ext_corr_id: Option<u64>,
    pub(super) device_id: Option<u32>,
    pub(super) stream: Option<&'a str>,
    pub(super) name: Option<&'a str>,
}

/// When and where; times in µs, as written.
#[derive(Deserialize)]
pub(super) struct RawMoment<'a> {
    #[serde(borrow)]
    pub(super) ts: &'a RawValue,
    pub(super) pid: i32,
    pub(super) tid: i64,
}

/// What an event of any kind has beside the line.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Details<'a> {
    pub(super) nranks: i32,
    pub(super) nnodes: Option<i32>,
    #[serde(borrow)]
    pub(super) comm_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) func: Option<Cow<'a, str>>,
    pub(super) count: u64,
    #[serde(borrow)]
    pub(super) dtype: Option<Cow<'a, str>>,
    pub(super) root: i32,
    pub(super) stream: Option<&'a str>,
    pub(super) graph_captured: bool,
    pub(super) depth: i32,
    pub(super) seq: u64,
    #[serde(borrow)]
    pub(super) algo: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) proto: Option<Cow<'a, str>>,
    pub(super) channels: u8,
    pub(super) warps: u8,
    pub(super) send_buff: Option<&'a str>,
    pub(super) recv_buff: Option<&'a str>,
    pub(super) buff: Option<&'a str>,
    pub(super) parent_group: Option<&'a str>,
    pub(super) peer: i32,
    pub(super) channel: u8,
    pub(super) steps: i32,
    pub(super) chunk_size: i32,
    pub(super) is_send: bool,
    pub(super) event_pid: i32,
    pub(super) step: i32,
    pub(super) p_timer: u64,
    // What the first recordings did not have.
    pub(super) comm_hash: u64,
    pub(super) user_tag: u64,
    #[serde(borrow)]
    pub(super) kernel_variant: Option<Cow<'a, str>>,
    pub(super) is_symmetric: bool,
    pub(super) net_id: i64,
    pub(super) net: Option<Net>,
    #[serde(borrow)]
    pub(super) sync_strategy: Option<Cow<'a, str>>,
    pub(super) intra_batch_sync: bool,
    pub(super) batch_size: u32,
    pub(super) batches: u32,
    pub(super) ce_seq: u32,
    pub(super) is_complete: bool,
    pub(super) operations: i32,
    pub(super) bytes: u64,
    pub(super) intra_sync: bool,
    pub(super) phase: u8,
    #[serde(borrow)]
    pub(super) phase_name: Option<Cow<'a, str>>,
}

/// What one of NCCL's own net plugins said.
#[derive(Clone, Copy, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum Net {
    IbQueuePair {
        device: i32,
        work_request: u64,
        opcode: i32,
        queue_pair: i32,
        bytes: u64,
    },
    Socket {
        descriptor: i32,
        operation: i32,
        bytes: u64,
    },
}

impl Net {
    /// The data as the net plugin passes it, for the rest of the process's life: plugin id and address.
    pub(super) fn keep(self) -> (i64, u64) {
        let block = NetBlock::new(match self {
            Self::IbQueuePair {
                device,
                work_request,
                opcode,
                queue_pair,
                bytes,
            } => NetData::Ib {
                device,
                work_request,
                opcode,
                queue_pair,
                bytes,
            },
            Self::Socket {
                descriptor,
                operation,
                bytes,
            } => NetData::Socket {
                descriptor,
                operation,
                bytes,
            },
        });
        let kept = Box::leak(Box::new(block));
        (kept.id(), kept.address())
    }
}
