//! From [`Definition`]s to libotf2's writer.

use otf2_sys as sys;

use super::Definition;
use super::definition::plain_definitions;
use super::field::Field as _;
use crate::GlobalDefinitions;
use crate::error::{Result, refused};
use crate::handle::c_string;

/// What a definition has besides its text or members takes less than this.
const REST_BYTES: usize = 256;
/// A member of a group takes at most its length and eight bytes.
const MEMBER_BYTES: usize = 9;

macro_rules! write_plain {
    ($($kind:ident by $set:ident, $write:ident { $($field:ident: $type:ty),* $(; $value:ident)? })*) => {
        /// Writes a definition without lists; `None` for the others.
        fn write_plain(writer: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Option<sys::OTF2_ErrorCode> {
            Some(match definition {
                $(Definition::$kind { $($field,)* $($value,)? } => {
                    // SAFETY: the writer is open and takes numbers; a value has the type that goes with it.
                    unsafe {
                        sys::$write(
                            writer,
                            $($field.to_raw(),)*
                            $($value.attribute_type().raw(), $value.to_raw(),)?
                        )
                    }
                })*
                _ => return None,
            })
        }
    };
}

plain_definitions!(write_plain);

impl GlobalDefinitions<'_> {
    /// Writes a definition as it is. Nothing is checked but its size: who mixes this with the other functions, which
    /// check that references are dense and defined, gets refusals from them.
    ///
    /// # Errors
    ///
    /// When it is larger than a chunk of the archive, or the file cannot be written.
    pub fn verbatim(&mut self, definition: &Definition) -> Result<()> {
        let by = format!("write a definition of the kind {}", definition.kind());
        self.usable(&by)?;
        let size = size(definition) + REST_BYTES;
        let most = self.chunk_bytes();
        if u64::try_from(size).unwrap_or(u64::MAX) > most {
            let reason = format!("it takes up to {size} bytes, a chunk of the archive has {most}");
            return Err(refused(by, reason));
        }
        let writer = self.as_ptr();
        let code = match write_plain(writer, definition) {
            Some(code) => code,
            None => write_list(writer, definition, &by)?,
        };
        self.written(code, &by)
    }
}

fn size(definition: &Definition) -> usize {
    match definition {
        Definition::String { text, .. } => text.len(),
        Definition::Group { members, .. } => members.len().saturating_mul(MEMBER_BYTES),
        // At most 255 elements of at most 11 bytes.
        Definition::MetricClass { .. }
        | Definition::CartTopology { .. }
        | Definition::CartCoordinate { .. }
        | Definition::IoParadigm { .. } => 255 * 16,
        _ => 0,
    }
}

fn write_list(
    writer: *mut sys::OTF2_GlobalDefWriter,
    definition: &Definition,
    by: &str,
) -> Result<sys::OTF2_ErrorCode> {
    let too_many = || refused(by, "it has more elements than OTF2 can count");
    Ok(match definition {
        Definition::String { this, text } => {
            let text = c_string(text, || by.to_owned())?;
            // SAFETY: the writer is open; libotf2 copies the NUL-terminated string.
            unsafe { sys::OTF2_GlobalDefWriter_WriteString(writer, this.get(), text.as_ptr()) }
        }
        Definition::Group {
            this,
            name,
            group_type,
            paradigm,
            flags,
            members,
        } => {
            let count = u32::try_from(members.len()).map_err(|_| too_many())?;
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe {
                sys::OTF2_GlobalDefWriter_WriteGroup(
                    writer,
                    this.get(),
                    name.get(),
                    *group_type,
                    *paradigm,
                    *flags,
                    count,
                    members.as_ptr(),
                )
            }
        }
        Definition::MetricClass {
            this,
            members,
            occurrence,
            recorder_kind,
        } => {
            let members: Vec<u32> = members.iter().map(|member| member.get()).collect();
            let count = u8::try_from(members.len()).map_err(|_| too_many())?;
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe {
                sys::OTF2_GlobalDefWriter_WriteMetricClass(
                    writer,
                    this.get(),
                    count,
                    members.as_ptr(),
                    *occurrence,
                    *recorder_kind,
                )
            }
        }
        Definition::CartTopology {
            this,
            name,
            comm,
            dimensions,
        } => {
            let dimensions: Vec<u32> = dimensions.iter().map(|it| it.get()).collect();
            let count = u8::try_from(dimensions.len()).map_err(|_| too_many())?;
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe {
                sys::OTF2_GlobalDefWriter_WriteCartTopology(
                    writer,
                    this.get(),
                    name.get(),
                    comm.get(),
                    count,
                    dimensions.as_ptr(),
                )
            }
        }
        Definition::CartCoordinate {
            topology,
            rank,
            coordinates,
        } => {
            let count = u8::try_from(coordinates.len()).map_err(|_| too_many())?;
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe {
                sys::OTF2_GlobalDefWriter_WriteCartCoordinate(
                    writer,
                    topology.get(),
                    *rank,
                    count,
                    coordinates.as_ptr(),
                )
            }
        }
        Definition::IoParadigm {
            this,
            identification,
            name,
            class,
            flags,
            properties,
        } => {
            let kinds: Vec<u8> = properties.iter().map(|(kind, _)| *kind).collect();
            let types = properties
                .iter()
                .map(|(_, value)| value.attribute_type().raw());
            let types: Vec<u8> = types.collect();
            let values: Vec<_> = properties.iter().map(|(_, value)| value.to_raw()).collect();
            let count = u8::try_from(kinds.len()).map_err(|_| too_many())?;
            // SAFETY: the writer is open and takes numbers; the arrays have `count` elements.
            unsafe {
                sys::OTF2_GlobalDefWriter_WriteIoParadigm(
                    writer,
                    this.get(),
                    identification.get(),
                    name.get(),
                    *class,
                    *flags,
                    count,
                    kinds.as_ptr(),
                    types.as_ptr(),
                    values.as_ptr(),
                )
            }
        }
        other => return Err(refused(by, format!("{} has no list", other.kind()))),
    })
}
