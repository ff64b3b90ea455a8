//! libmunge, loaded when it is asked for and never linked: its calls, by which a rank speaks with the daemon of its node. What is made of
//! them is in munge.rs.

use super::foreign::{Library, Refusal, c_string, text};
use std::ffi::{c_char, c_int, c_void};

type Make = unsafe extern "C" fn() -> *mut c_void;
type Destroy = unsafe extern "C" fn(*mut c_void);
type Set = unsafe extern "C" fn(*mut c_void, c_int, ...) -> c_int;
type Encode = unsafe extern "C" fn(*mut *mut c_char, *mut c_void, *const c_void, c_int) -> c_int;
type Decode = unsafe extern "C" fn(
    *const c_char,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
    *mut libc::uid_t,
    *mut libc::gid_t,
) -> c_int;
type WordsOf = unsafe extern "C" fn(*mut c_void) -> *const c_char;

// Options, and a value of the first, as in munge.h.
const CIPHER_TYPE: c_int = 0;
const SOCKET: c_int = 8;
const UID_RESTRICTION: c_int = 9;
const CIPHER_AES128: c_int = 4;

/// libmunge, which speaks with the daemon of this node.
#[derive(Clone)]
pub(super) struct MungeLibrary {
    make: Make,
    destroy: Destroy,
    set: Set,
    encode: Encode,
    decode: Decode,
    words: WordsOf,
}

impl MungeLibrary {
    /// Loads the library `name`.
    pub(super) fn load(name: &str) -> Result<Self, Refusal> {
        let library = Library::open(&[name.to_owned()], libc::RTLD_LOCAL)?;
        let find = |symbol| library.find(symbol);
        // SAFETY: for all, the address is the exported function of this name, whose prototype has been the same since munge 0.5.
        unsafe {
            Ok(Self {
                make: std::mem::transmute::<*mut c_void, Make>(find(c"munge_ctx_create")?),
                destroy: std::mem::transmute::<*mut c_void, Destroy>(find(c"munge_ctx_destroy")?),
                set: std::mem::transmute::<*mut c_void, Set>(find(c"munge_ctx_set")?),
                encode: std::mem::transmute::<*mut c_void, Encode>(find(c"munge_encode")?),
                decode: std::mem::transmute::<*mut c_void, Decode>(find(c"munge_decode")?),
                words: std::mem::transmute::<*mut c_void, WordsOf>(find(c"munge_ctx_strerror")?),
            })
        }
    }

    /// A credential of ours with `payload`, encrypted, which processes of the user `reader` can decode, and no others; by the daemon at
    /// `socket`, else at the usual one.
    pub(super) fn encode(
        &self,
        socket: Option<&str>,
        reader: u32,
        payload: &[u8],
    ) -> Result<String, Refusal> {
        let len = c_int::try_from(payload.len()).map_err(|e| e.to_string())?;
        self.within(socket, |context| {
            let mut credential: *mut c_char = std::ptr::null_mut();
            // SAFETY: the context is open; the options take a number of these types. `payload` lives until the end of the calls, and
            // `credential` is to be written to.
            let code = unsafe {
                match (
                    (self.set)(context, CIPHER_TYPE, CIPHER_AES128),
                    (self.set)(context, UID_RESTRICTION, reader),
                ) {
                    (0, 0) => (self.encode)(&raw mut credential, context, payload.as_ptr().cast(), len),
                    (0, code) | (code, _) => code,
                }
            };
            // SAFETY: null, or a C string made by malloc, which is ours.
            let said = unsafe {
                let said = text(credential);
                libc::free(credential.cast());
                said
            };
            (code, said)
        })
    }

    /// Whose `credential` is, and its payload.
    pub(super) fn decode(&self, socket: Option<&str>, credential: &str) -> Result<(u32, Vec<u8>), Refusal> {
        let credential = c_string(credential);
        self.within(socket, |context| {
            let (mut start, mut len, mut uid, mut gid) = (std::ptr::null_mut(), 0, u32::MAX, u32::MAX);
            // SAFETY: the context is open, `credential` a C string, and the others are to be written to.
            let code = unsafe {
                (self.decode)(
                    credential.as_ptr(),
                    context,
                    &raw mut start,
                    &raw mut len,
                    &raw mut uid,
                    &raw mut gid,
                )
            };
            let bytes = match usize::try_from(len) {
                // SAFETY: as many bytes, made by malloc.
                Ok(len) if !start.is_null() => unsafe {
                    std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec()
                },
                _ => Vec::new(),
            };
            // SAFETY: null, or made by malloc and ours.
            unsafe { libc::free(start) };
            (code, (uid, bytes))
        })
    }

    /// What `call` does in a context of its own, which has this socket, unless its code is an error's.
    fn within<T>(
        &self,
        socket: Option<&str>,
        call: impl FnOnce(*mut c_void) -> (c_int, T),
    ) -> Result<T, Refusal> {
        let socket = socket.map(c_string);
        // SAFETY: takes nothing.
        let context = unsafe { (self.make)() };
        if context.is_null() {
            return Err("munge_ctx_create: out of memory".to_owned());
        }
        if let Some(socket) = &socket {
            // SAFETY: the context is open, and the option takes a C string, which is copied.
            unsafe { (self.set)(context, SOCKET, socket.as_ptr()) };
        }
        let (code, done) = call(context);
        // SAFETY: the context is open; what it says lives as long, and is copied. Then it is used no more.
        let why = unsafe {
            let why = text((self.words)(context));
            (self.destroy)(context);
            why
        };
        if code == 0 { Ok(done) } else { Err(format!("{why} ({code})")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused() {
        let why = MungeLibrary::load("libc.so.6").err().unwrap();
        assert!(why.contains("libc.so.6 has no munge_ctx_create"), "{why}");
        let why = MungeLibrary::load("libno-such-thing.so.7").err().unwrap();
        assert!(why.contains("libno-such-thing.so.7"), "{why}");
    }
}
