//! The global definitions of an archive.

mod communication;
mod metrics;
mod system_tree;

use std::ptr::NonNull;

use otf2_sys as sys;

use crate::defined::Defined;
use crate::error::{self, Result, check, check_all, refused};
use crate::handle::{Handle, c_string};
use crate::records::{Attribute, ClockProperties, Region};
use crate::{AttributeRef, LocationRef, RegionRef, StringRef};

/// Writes the global definitions.
///
/// References of a kind are given in order, 0, 1, 2 and so on, because readers complain about anything else;
/// only those of locations are free. What a definition refers to is defined before it. All this is checked
/// here, and an error leaves the archive as it was.
pub struct GlobalDefinitions<'a> {
    handle: &'a mut Handle,
    writer: NonNull<sys::OTF2_GlobalDefWriter>,
    defined: &'a mut Defined,
    failed: &'a mut bool,
}

// SAFETY: `writer` is only reachable through this value, which has the handle to itself, and libotf2 allows a
// writer to move between threads that use it one after the other.
unsafe impl Send for GlobalDefinitions<'_> {}

/// What an archive remembers of its global definitions between two uses of their writer.
#[derive(Default)]
pub(crate) struct DefinitionState {
    writer: Option<NonNull<sys::OTF2_GlobalDefWriter>>,
    defined: Defined,
    failed: bool,
}

// SAFETY: the pointer is used only together with the handle of the archive it came from, which `ArchiveWriter`
// keeps next to it and lends out as a whole.
unsafe impl Send for DefinitionState {}

impl DefinitionState {
    pub(crate) fn close(&mut self, handle: &mut Handle) -> Result<()> {
        let Some(writer) = self.writer.take().filter(|_| !self.failed) else {
            return Ok(());
        };
        let archive = handle.archive()?;
        error::forget();
        // SAFETY: archive and writer are open, and `take` makes this the writer's last use.
        let code = unsafe { sys::OTF2_Archive_CloseGlobalDefWriter(archive, writer.as_ptr()) };
        let result = check_all(code, || {
            format!("close the global definitions of the {}", handle.described())
        });
        let file = handle.global_definition_file();
        let result = result.and_then(|()| handle.write_full_chunk(&file, 0));
        if result.is_err() {
            handle.note_failure();
        }
        result
    }
}

impl<'a> GlobalDefinitions<'a> {
    pub(crate) fn new(handle: &'a mut Handle, state: &'a mut DefinitionState) -> Result<Self> {
        let operation = || "open the global definitions".to_owned();
        let archive = handle.archive()?;
        if state.failed {
            return Err(refused(operation(), "they could not be written before"));
        }
        let writer = match state.writer {
            Some(writer) => writer,
            None => {
                error::forget();
                // SAFETY: the archive is open, in write mode, primary, and has flush callbacks.
                let writer = unsafe { sys::OTF2_Archive_GetGlobalDefWriter(archive) };
                NonNull::new(writer).ok_or_else(|| error::null(operation()))?
            }
        };
        state.writer = Some(writer);
        Ok(Self {
            handle,
            writer,
            defined: &mut state.defined,
            failed: &mut state.failed,
        })
    }

    /// Checks the result of a libotf2 call whose arguments are good, so that a failure is one of the file.
    pub(crate) fn written(&mut self, code: sys::OTF2_ErrorCode, operation: &str) -> Result<()> {
        let result = check(code, || operation.to_owned());
        if result.is_err() {
            *self.failed = true;
            self.handle.give_up();
        }
        result
    }

    /// The size of a definitions chunk of the archive.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.handle.definitions_chunk_bytes()
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::OTF2_GlobalDefWriter {
        self.writer.as_ptr()
    }

    pub(crate) fn usable(&self, operation: &str) -> Result<()> {
        if *self.failed {
            return Err(refused(
                operation,
                "the definitions could not be written before",
            ));
        }
        Ok(())
    }

    /// The locations defined so far, in no particular order: each of them needs an event file.
    pub fn locations(&self) -> impl Iterator<Item = LocationRef> {
        self.defined.locations()
    }

    /// Whether the clock properties are written: an archive needs them.
    #[must_use]
    pub fn has_clock_properties(&self) -> bool {
        self.defined.has_clock()
    }

    /// Defines the clock. Once.
    ///
    /// # Errors
    ///
    /// When it is defined already, or a clock with these properties cannot be.
    pub fn clock_properties(&mut self, clock: &ClockProperties) -> Result<()> {
        let by = "define the clock properties";
        self.usable(by)?;
        if clock.timer_resolution == 0 {
            return Err(refused(
                by,
                "the timer resolution is ticks per second, and not 0",
            ));
        }
        if clock
            .global_offset
            .checked_add(clock.trace_length)
            .is_none()
        {
            return Err(refused(
                by,
                "global offset + trace length is after the end of time",
            ));
        }
        self.defined.clock()?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteClockProperties(
                self.writer.as_ptr(),
                clock.timer_resolution,
                clock.global_offset,
                clock.trace_length,
                clock.realtime_timestamp,
            )
        };
        self.written(code, by)
    }

    /// Defines a string.
    ///
    /// # Errors
    ///
    /// When the reference is not the next one, the text has a NUL byte, or it is larger than a chunk.
    pub fn string(&mut self, reference: StringRef, text: &str) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        let c_text = c_string(text.as_bytes(), || by.clone())?;
        fits(&by, text.len(), self.chunk_bytes())?;
        self.defined.next_string(reference)?;
        // SAFETY: the writer is open; libotf2 copies the NUL-terminated string.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteString(
                self.writer.as_ptr(),
                reference.get(),
                c_text.as_ptr(),
            )
        };
        self.written(code, &by)
    }

    /// Defines an attribute.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn attribute(&mut self, reference: AttributeRef, attribute: &Attribute) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, attribute.name)?;
        self.defined.optional_string(&by, attribute.description)?;
        self.defined.next_attribute(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteAttribute(
                self.writer.as_ptr(),
                reference.get(),
                attribute.name.get(),
                attribute.description.get(),
                attribute.attribute_type.raw(),
            )
        };
        self.written(code, &by)
    }

    /// Defines a region.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn region(&mut self, reference: RegionRef, region: &Region) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, region.name)?;
        self.defined.optional_string(&by, region.canonical_name)?;
        self.defined.optional_string(&by, region.description)?;
        self.defined.optional_string(&by, region.source_file)?;
        self.defined.next_region(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteRegion(
                self.writer.as_ptr(),
                reference.get(),
                region.name.get(),
                region.canonical_name.get(),
                region.description.get(),
                region.role.raw(),
                region.paradigm.raw(),
                region.flags.0,
                region.source_file.get(),
                region.begin_line,
                region.end_line,
            )
        };
        self.written(code, &by)
    }
}

/// A definition is written into one chunk; what it has besides its text or members takes less than this.
const REST_BYTES: usize = 256;

pub(super) fn fits(by: &str, bytes: usize, chunk_bytes: u64) -> Result<()> {
    let limit = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
    let limit = limit.saturating_sub(REST_BYTES);
    if bytes <= limit {
        return Ok(());
    }
    Err(refused(
        by,
        format!("it takes {bytes} bytes, a definition has at most {limit}"),
    ))
}
