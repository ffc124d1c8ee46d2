//! Reads a trace file event by event, each as its original text.

use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::output::is_compressed;

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
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, input));
    let mut failed = None;
    let read = deserializer.deserialize_map(Members { reader, failed: &mut failed });
    match (failed, read.and_then(|()| deserializer.end())) {
        (Some(error), _) => Err(error),
        (None, Err(error)) if error.is_io() => Err(Error::io("read", path)(error.into())),
        (None, Err(error)) => {
            Err(Error::Refused(format!("{} is no trace that torch.profiler made: {error}", path.display())))
        }
        (None, Ok(())) => Ok(()),
    }
}

/// The file's top-level object. An error of the `reader` ends the reading.
struct Members<'r, R> {
    reader: &'r mut R,
    failed: &'r mut Option<Error>,
}

impl<R: Reader> Members<'_, R> {
    fn hear<E: serde::de::Error>(&mut self, hear: impl FnOnce(&mut R) -> Result<()>) -> std::result::Result<(), E> {
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
