//! A file of rows.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RecordWriter;
use parquet::schema::types::ColumnPath;

use crate::error::{Error, Result};

/// Rows per row group; a file has one row group in memory.
const ROWS: usize = 1 << 16;

/// Version of the tables (docs/REFERENCE.md): columns may be added; it changes if one changes or is removed.
const FORMAT: &str = "1";

/// Columns whose values are nearly all distinct: a dictionary would be useless, but differences are small.
const RISING: [&str; 9] =
    ["instance", "start_ns", "stop_ns", "first_ns", "last_ns", "end_ns", "event", "parent", "transfer"];

pub(super) struct TableFiles {
    out: PathBuf,
    properties: WriterPropertiesPtr,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Written {
    pub(super) file: PathBuf,
    pub(super) rows: u64,
}

/// A file of rows, created when its first rows arrive.
pub(super) struct TableFile<'a, R> {
    files: &'a TableFiles,
    file: PathBuf,
    rows: Vec<R>,
    writer: Option<SerializedFileWriter<File>>,
    written: u64,
    /// The first error: later rows are not written.
    failed: Option<Error>,
}

impl TableFiles {
    pub(super) fn of(out: &Path, begin_ns: u64) -> Self {
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
        Self { out: out.to_owned(), properties: Arc::new(properties.build()) }
    }

    pub(super) fn create<R>(&self, table: &str, folder: &Path) -> TableFile<'_, R> {
        let file = Path::new(&format!("table={table}")).join(folder).join(table).with_extension("parquet");
        TableFile { files: self, file, rows: Vec::new(), writer: None, written: 0, failed: None }
    }
}

impl<R> TableFile<'_, R>
where
    for<'s> &'s [R]: RecordWriter<R>,
{
    pub(super) fn push(&mut self, row: R) {
        self.rows.push(row);
        if self.rows.len() == ROWS {
            self.write();
        }
    }

    /// Writes the remaining rows; returns the file if it has any rows.
    pub(super) fn close(mut self) -> Result<Option<Written>> {
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
        Ok(Some(Written { file: self.file, rows: self.written }))
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
