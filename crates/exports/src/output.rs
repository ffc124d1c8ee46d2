//! Files that several threads write.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;

use crate::error::{Error, Result};

pub(crate) const CHUNK_BYTES: usize = 1 << 20;

pub(crate) struct Output {
    writer: Mutex<Writer>,
    path: PathBuf,
}

enum Writer {
    /// Opened for each piece: a job can have more ranks than a process may open files.
    Pieces,
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
}

impl Output {
    /// Creates a file, compressed if its name says so.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = BufWriter::with_capacity(CHUNK_BYTES, File::create_new(path).map_err(Error::io("make", path))?);
        let writer = match is_compressed(path) {
            true => Writer::Compressed(GzEncoder::new(file, Compression::fast())),
            false => Writer::Plain(file),
        };
        Ok(Self { writer: Mutex::new(writer), path: path.to_owned() })
    }

    pub(crate) fn in_pieces(path: &Path) -> Result<Self> {
        drop(File::create_new(path).map_err(Error::io("make", path))?);
        Ok(Self { writer: Mutex::new(Writer::Pieces), path: path.to_owned() })
    }

    pub(crate) fn append(&self, bytes: impl AsRef<[u8]>) -> Result<()> {
        let bytes = bytes.as_ref();
        let written = match &mut *self.writer.lock() {
            Writer::Pieces => {
                let file = OpenOptions::new().append(true).open(&self.path);
                file.and_then(|mut file| file.write_all(bytes))
            }
            Writer::Plain(file) => file.write_all(bytes),
            Writer::Compressed(file) => file.write_all(bytes),
        };
        written.map_err(Error::io("write", &self.path))
    }

    pub(crate) fn finish(self) -> Result<()> {
        let finished = match self.writer.into_inner() {
            Writer::Pieces => return Ok(()),
            Writer::Plain(file) => Ok(file),
            Writer::Compressed(file) => file.finish(),
        };
        let written = finished.and_then(|file| file.into_inner().map_err(io::Error::from));
        written.map(drop).map_err(Error::io("write", &self.path))
    }
}

pub(crate) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}
