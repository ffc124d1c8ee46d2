//! The columns of each table, in this order, and the files that they are written to. docs/REFERENCE.md describes the
//! columns; a test compares names and types.
//!
//! Integers are signed, because Spark has no others; ids keep their 64 bits.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::parquet::Table;
use analysis::Trace;
use otf2::LocationGroupRef;
use parquet::basic::{Compression, Encoding};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RecordWriter;
use parquet::schema::types::ColumnPath;
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

/// Rows per row group; a file has one row group in memory.
const ROWS: usize = 1 << 16;

/// Version of the tables (docs/REFERENCE.md): columns may be added; it changes if one changes or is removed.
const FORMAT: &str = "1";

/// Columns whose values are nearly all distinct: a dictionary would be useless, but differences are small.
const RISING: [&str; 9] =
    ["instance", "start_ns", "stop_ns", "first_ns", "last_ns", "end_ns", "event", "parent", "transfer"];

pub(super) struct TableFiles {
    out: PathBuf,
    wanted: Vec<Table>,
    properties: WriterPropertiesPtr,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WrittenTable {
    pub(super) file: PathBuf,
    pub(super) rows: u64,
}

/// A file of rows, created when its first rows arrive.
pub(super) struct TableFile<'a, R> {
    files: &'a TableFiles,
    is_wanted: bool,
    file: PathBuf,
    rows: Vec<R>,
    writer: Option<SerializedFileWriter<File>>,
    written: u64,
    /// The first error: later rows are not written.
    failed: Option<Error>,
}

impl TableFiles {
    pub(super) fn new(out: &Path, begin_ns: u64, wanted: &[Table]) -> Self {
        let metadata = |key: &str, value: String| KeyValue::new(format!("nccl_otf2.{key}"), value);
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("nccl-profiler-otf2 version {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![
                metadata("format", FORMAT.to_owned()),
                metadata("begin_ns", begin_ns.to_string()),
            ]));
        for column in RISING {
            properties = properties
                .set_column_dictionary_enabled(ColumnPath::from(column), false)
                .set_column_encoding(ColumnPath::from(column), Encoding::DELTA_BINARY_PACKED);
        }
        Self { out: out.to_owned(), wanted: wanted.to_vec(), properties: Arc::new(properties.build()) }
    }

    pub(super) fn wants(&self, table: Table) -> bool {
        self.wanted.contains(&table)
    }

    /// The file of a table; rows of a table that is not wanted go nowhere.
    pub(super) fn create<R>(&self, table: Table, folder: &Path) -> TableFile<'_, R> {
        let (is_wanted, table) = (self.wants(table), table.name());
        let file = Path::new(&format!("table={table}")).join(folder).join(table).with_extension("parquet");
        TableFile { files: self, is_wanted, file, rows: Vec::new(), writer: None, written: 0, failed: None }
    }
}

impl<R> TableFile<'_, R>
where
    for<'s> &'s [R]: RecordWriter<R>,
{
    pub(super) fn push(&mut self, row: R) {
        if !self.is_wanted {
            return;
        }
        self.rows.push(row);
        if self.rows.len() == ROWS {
            self.write();
        }
    }

    /// Writes the remaining rows; returns the file if it has any rows.
    pub(super) fn close(mut self) -> Result<Option<WrittenTable>> {
        if !self.rows.is_empty() {
            self.write();
        }
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let Some(writer) = self.writer else {
            return Ok(None);
        };
        writer.close().map_err(|error| failed(&self.files.out.join(&self.file), error))?;
        Ok(Some(WrittenTable { file: self.file, rows: self.written }))
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.row_group().err();
        }
        self.rows.clear();
    }

    fn row_group(&mut self) -> Result<()> {
        let path = self.files.out.join(&self.file);
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.create(&path)?,
        };
        let rows = self.rows.as_slice();
        let mut write = || -> ParquetResult<()> {
            let mut group = writer.next_row_group()?;
            rows.write_to_row_group(&mut group)?;
            group.close()?;
            Ok(())
        };
        write().map_err(|error| failed(&path, error))?;
        self.written += rows.len() as u64;
        self.writer = Some(writer);
        Ok(())
    }

    fn create(&self, path: &Path) -> Result<SerializedFileWriter<File>> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
        }
        let file = File::create_new(path).map_err(Error::io("make", path))?;
        let made = self.rows.as_slice().schema();
        let made = made.and_then(|schema| SerializedFileWriter::new(file, schema, Arc::clone(&self.files.properties)));
        made.map_err(|error| failed(path, error))
    }
}

fn failed(path: &Path, error: parquet::errors::ParquetError) -> Error {
    Error::io("write", path)(std::io::Error::other(error))
}

pub(super) fn host(trace: &Trace, process: LocationGroupRef) -> &str {
    trace.host_name(process).filter(|name| !name.is_empty()).unwrap_or("unknown")
}

/// For a rank, a channel, or the number of a definition.
pub(super) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
