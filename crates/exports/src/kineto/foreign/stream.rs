//! Reads a trace file event by event, each as its original text.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::output::is_compressed;

/// A value is in memory as a whole. Those of torch.profiler have some KiB, but a compressed file of a few MiB may have
/// one of many GiB.
const MOST_VALUE_BYTES: usize = 16 << 20;

pub(super) trait Reader {
    /// A member of the file's top-level object other than the events.
    fn member(&mut self, name: &str, value: &RawValue) -> Result<()>;
    fn begin_events(&mut self) -> Result<()>;
    fn event(&mut self, event: &RawValue) -> Result<()>;
    fn end_events(&mut self) -> Result<()>;
}

pub(super) fn read(path: &Path, reader: &mut impl Reader) -> Result<()> {
    let file = regular_files::open_named(path, u64::MAX).map_err(Error::io("read", path))?;
    let input: Box<dyn Read> =
        if is_compressed(path) { Box::new(MultiGzDecoder::new(BufReader::new(file))) } else { Box::new(file) };
    let left = Cell::new(MOST_VALUE_BYTES);
    let input = BufReader::with_capacity(1 << 20, Limited { input, left: &left });
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let mut failed = None;
    let read = deserializer.deserialize_map(Members { reader, left: &left, failed: &mut failed });
    match (failed, read.and_then(|()| deserializer.end())) {
        (Some(error), _) => Err(error),
        (None, Err(error)) if error.is_io() => Err(Error::io("read", path)(error.into())),
        (None, Err(error)) => {
            Err(Error::Refused(format!("{} is no trace that torch.profiler made: {error}", path.display())))
        }
        (None, Ok(())) => Ok(()),
    }
}

/// Fails at a value that is too large.
struct Limited<'l, R> {
    input: R,
    /// How much of the current value may still follow.
    left: &'l Cell<usize>,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            let mebibytes = MOST_VALUE_BYTES >> 20;
            return Err(io::Error::other(format!(
                "an event or another value has more than {mebibytes} MiB, which none of torch.profiler's has"
            )));
        }
        let most = buffer.len().min(left);
        let count = self.input.read(&mut buffer[..most])?;
        self.left.set(left - count);
        Ok(count)
    }
}

/// The file's top-level object. An error of the `reader` ends the reading.
struct Members<'r, R> {
    reader: &'r mut R,
    left: &'r Cell<usize>,
    failed: &'r mut Option<Error>,
}

impl<R: Reader> Members<'_, R> {
    fn hear<E: serde::de::Error>(&mut self, hear: impl FnOnce(&mut R) -> Result<()>) -> std::result::Result<(), E> {
        self.left.set(MOST_VALUE_BYTES);
        hear(self.reader).map_err(|error| {
            *self.failed = Some(error);
            E::custom("the reader failed")
        })
    }
}

impl<'de, R: Reader> Visitor<'de> for Members<'_, R> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object with traceEvents")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == "traceEvents" {
                map.next_value_seed(Events(&mut self))?;
            } else {
                let value: Box<RawValue> = map.next_value()?;
                self.hear(|reader| reader.member(&name, &value))?;
            }
        }
        Ok(())
    }
}

struct Events<'m, 'r, R>(&'m mut Members<'r, R>);

impl<'de, R: Reader> DeserializeSeed<'de> for Events<'_, '_, R> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, R: Reader> Visitor<'de> for Events<'_, '_, R> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<(), A::Error> {
        self.0.hear(R::begin_events)?;
        while let Some(event) = list.next_element::<Box<RawValue>>()? {
            self.0.hear(|reader| reader.event(&event))?;
        }
        self.0.hear(R::end_events)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::value::RawValue;

    use super::{MOST_VALUE_BYTES, Reader, read};
    use crate::error::Result;

    /// The number of events.
    struct Count(u64);

    impl Reader for Count {
        fn member(&mut self, _: &str, _: &RawValue) -> Result<()> {
            Ok(())
        }

        fn begin_events(&mut self) -> Result<()> {
            Ok(())
        }

        fn event(&mut self, _: &RawValue) -> Result<()> {
            self.0 += 1;
            Ok(())
        }

        fn end_events(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_small_file_does_not_fill_the_memory() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("trace.json.gz");
        let write = |pieces: &[&str]| {
            let mut file = GzEncoder::new(File::create(&path).expect("a file"), Compression::fast());
            pieces.iter().for_each(|piece| file.write_all(piece.as_bytes()).expect("written"));
            file.finish().expect("written");
        };
        let large = "x".repeat(2 * MOST_VALUE_BYTES);
        let sensible = "x".repeat(MOST_VALUE_BYTES / 2);
        for pieces in [
            ["{\"traceEvents\": [{\"name\": \"", &large, "\"}]}"],
            ["{\"metadata\": [\"", &large, "\"], \"traceEvents\": []}"],
            ["{\"", &large, "\": 0, \"traceEvents\": []}"],
        ] {
            write(&pieces);
            let error = read(&path, &mut Count(0)).expect_err("a large value").to_string();
            assert!(error.contains("more than 16 MiB") && error.contains("trace.json.gz"), "{error}");
        }
        let event = format!("{{\"name\": \"{sensible}\"}}");
        write(&["{\"traceEvents\": [", &event, ",", &event, ",", &event, ",", &event, ",", &event, "]}"]);
        let mut count = Count(0);
        read(&path, &mut count).expect("a trace");
        assert_eq!(count.0, 5, "the file may be of any size");
    }
}
