//! The columns of each table, in this order. docs/REFERENCE.md describes them; a test compares names and types.
//!
//! Integers are signed, because Spark has no others; ids keep their 64 bits.

use parquet_derive::ParquetRecordWriter;

#[derive(ParquetRecordWriter)]
pub(super) struct Instance<'a> {
    pub(super) instance: i64,
    pub(super) communicator: i32,
    pub(super) function: &'a str,
    pub(super) sequence: Option<i64>,
    pub(super) warm_up: bool,
    pub(super) bytes: i64,
    pub(super) flow: &'a str,
    pub(super) ranks: i32,
    pub(super) first_ns: i64,
    pub(super) last_ns: Option<i64>,
    pub(super) end_ns: i64,
    pub(super) last_rank: Option<i32>,
    pub(super) last_job_rank: Option<i32>,
    pub(super) error_ns: Option<i64>,
    pub(super) incomparable: Option<&'a str>,
}

#[derive(ParquetRecordWriter)]
pub(super) struct Rank<'a> {
    pub(super) communicator: i32,
    pub(super) communicator_name: &'a str,
    pub(super) rank: i32,
    pub(super) job_rank: i32,
    pub(super) job_rank_number: Option<i32>,
    pub(super) host: &'a str,
    pub(super) process: i32,
    pub(super) process_name: &'a str,
    pub(super) group_name: &'a str,
    pub(super) location: i64,
}

#[derive(ParquetRecordWriter)]
pub(super) struct Operation<'a> {
    pub(super) instance: Option<i64>,
    pub(super) communicator: Option<i32>,
    pub(super) rank: Option<i32>,
    pub(super) function: &'a str,
    pub(super) sequence: Option<i64>,
    pub(super) replay: Option<i64>,
    pub(super) algorithm: Option<&'a str>,
    pub(super) protocol: Option<&'a str>,
    pub(super) channels: Option<i32>,
    pub(super) bytes: Option<i64>,
    pub(super) count: Option<i64>,
    pub(super) datatype: Option<&'a str>,
    pub(super) root: Option<i32>,
    pub(super) peer: Option<i32>,
    pub(super) timing: Option<&'a str>,
    pub(super) start_ns: i64,
    pub(super) stop_ns: i64,
    pub(super) waiting_ns: Option<i64>,
    pub(super) path: Option<&'a str>,
    pub(super) algbw: Option<f64>,
    pub(super) busbw: Option<f64>,
    pub(super) unfinished: bool,
    pub(super) event: Option<i64>,
    pub(super) parent: Option<i64>,
    pub(super) location: i64,
}

/// What a thread did in NCCL: calls, and the enqueueing and launches in them.
#[derive(ParquetRecordWriter)]
pub(super) struct Call<'a> {
    pub(super) class: &'a str,
    pub(super) function: &'a str,
    pub(super) thread: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) bytes: Option<i64>,
    pub(super) count: Option<i64>,
    pub(super) datatype: Option<&'a str>,
    pub(super) root: Option<i32>,
    pub(super) peer: Option<i32>,
    pub(super) start_ns: i64,
    pub(super) stop_ns: i64,
    pub(super) path: Option<&'a str>,
    pub(super) unfinished: bool,
    pub(super) event: Option<i64>,
    pub(super) parent: Option<i64>,
    pub(super) location: i64,
}

#[derive(ParquetRecordWriter)]
pub(super) struct Range<'a> {
    pub(super) class: &'a str,
    pub(super) domain: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) number: Option<i64>,
    pub(super) category: Option<&'a str>,
    pub(super) color: Option<i64>,
    pub(super) payload: Option<i64>,
    pub(super) payload_float: Option<f64>,
    pub(super) path: String,
    pub(super) depth: i32,
    pub(super) thread: Option<i64>,
    pub(super) start_ns: i64,
    pub(super) stop_ns: i64,
    pub(super) unfinished: bool,
    pub(super) location: i64,
}

#[derive(ParquetRecordWriter)]
pub(super) struct Transfer<'a> {
    pub(super) communicator: Option<i32>,
    pub(super) rank: Option<i32>,
    pub(super) peer: Option<i32>,
    pub(super) channel: Option<i32>,
    pub(super) direction: &'a str,
    pub(super) nic: Option<&'a str>,
    pub(super) bytes: Option<i64>,
    pub(super) start_ns: i64,
    pub(super) stop_ns: i64,
    pub(super) queued_ns: Option<i64>,
    pub(super) event: Option<i64>,
    pub(super) parent: Option<i64>,
    pub(super) location: i64,
}

#[derive(ParquetRecordWriter)]
pub(super) struct Step<'a> {
    pub(super) communicator: Option<i32>,
    pub(super) rank: Option<i32>,
    pub(super) peer: Option<i32>,
    pub(super) channel: Option<i32>,
    pub(super) direction: &'a str,
    pub(super) bytes: Option<i64>,
    pub(super) start_ns: i64,
    pub(super) stop_ns: i64,
    pub(super) send_gpu_wait_ns: Option<i64>,
    pub(super) send_peer_wait_ns: Option<i64>,
    pub(super) send_wait_ns: Option<i64>,
    pub(super) recv_wait_ns: Option<i64>,
    pub(super) recv_flush_wait_ns: Option<i64>,
    pub(super) recv_gpu_wait_ns: Option<i64>,
    pub(super) event: Option<i64>,
    pub(super) transfer: Option<i64>,
    pub(super) operation: Option<i64>,
    pub(super) location: i64,
}

#[derive(ParquetRecordWriter)]
pub(super) struct Kernel<'a> {
    pub(super) class: &'a str,
    pub(super) name: &'a str,
    pub(super) is_nccl: bool,
    pub(super) gpu: &'a str,
    pub(super) stream: &'a str,
    pub(super) bytes: Option<i64>,
    pub(super) start_ns: i64,
    pub(super) stop_ns: i64,
    pub(super) correlation: Option<i64>,
    pub(super) event: Option<i64>,
    pub(super) parent: Option<i64>,
    pub(super) location: i64,
}
