//! Libraries of others, loaded when they are needed and never linked: PMIx, and the libpmi of Slurm and Cray. Their calls stand here, and
//! munge's in libmunge.rs; what is made of them is in pmix.rs, libpmi.rs and munge.rs.
//!
//! Launchers' calls may wait for as long as they like, so they are made in a thread of their own (worker.rs).

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Why a library or a call is no use.
pub(super) type Refusal = String;

/// A shared library; never unloaded, as it may have threads.
#[derive(Debug)]
pub(super) struct Library {
    handle: *mut c_void,
    name: String,
}

impl Library {
    /// The first of `names` that can be loaded; with `scope` RTLD_GLOBAL, its plugins find its symbols.
    pub(super) fn open(names: &[String], scope: c_int) -> Result<Self, Refusal> {
        let mut why = Vec::new();
        for name in names {
            let Ok(file) = CString::new(name.as_str()) else { continue };
            // SAFETY: `file` is a C string. Loading runs the library's constructors; that it is what its name says, and
            // nothing that does harm, is for the administrator of this machine, or for the user who names it in a setting.
            let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | scope) };
            if !handle.is_null() {
                return Ok(Self { handle, name: name.clone() });
            }
            // SAFETY: dlerror's string is valid until this thread's next call of the family; it is copied.
            why.push(unsafe { text(libc::dlerror()) });
        }
        Err(why.join("; "))
    }

    /// The address of a function, never null.
    pub(super) fn find(&self, symbol: &CStr) -> Result<*mut c_void, Refusal> {
        // SAFETY: the handle is open and is never closed; `symbol` is a C string.
        let found = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        match found.is_null() {
            true => Err(format!("{} has no {}", self.name, symbol.to_string_lossy())),
            false => Ok(found),
        }
    }
}

/// A copy of a C string.
///
/// # Safety
/// `p` is null or points to a C string.
pub(super) unsafe fn text(p: *const c_char) -> String {
    match p.is_null() {
        true => String::new(),
        // SAFETY: not null, thus a C string, as the caller says.
        false => unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned(),
    }
}

/// `text` in an array of C characters, cut where it does not fit; always with a NUL at the end.
fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out[..N - 1].iter_mut().zip(text.bytes().take_while(|b| *b != 0)) {
        *to = from.cast_signed();
    }
    out
}

pub(super) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

// --- PMIx -----------------------------------------------------------------------------------------------------------

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    nspace: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`; the union is looked at by `kind` only.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    flag: bool,
    word: u32,
    long: u64,
    string: *mut c_char,
    bytes: Bytes,
    /// The union is as long as its longest member, which is none of these.
    all: [u64; 3],
}

/// `pmix_byte_object_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Bytes {
    start: *mut c_char,
    len: usize,
}

/// `pmix_info_t`
#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

// The layouts of OpenPMIx 3 to 5, on machines of 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);
    assert!(std::mem::offset_of!(Info, value) == 520 && std::mem::offset_of!(Value, data) == 8);
};

const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const BYTE_OBJECT: u16 = 27;
const PROC_RANK: u16 = 40;
const SUCCESS: c_int = 0;
const SCOPE_LOCAL: u8 = 1;
const SCOPE_GLOBAL: u8 = 3;

/// Stands for all ranks of a job.
const WILDCARD: u32 = u32::MAX - 1;

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int;
type Version = unsafe extern "C" fn() -> *const c_char;
type Words = unsafe extern "C" fn(c_int) -> *const c_char;

/// libpmix, and our name in its namespace.
pub(super) struct PmixLibrary {
    me: Proc,
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    abort: Abort,
    version: Version,
    words: Words,
    name: String,
}

/// What [`PmixLibrary::get`] found.
pub(super) enum Found {
    Number(u32),
    Text(String),
    Bytes(Vec<u8>),
}

/// Why there is no PMIx: no library, or one that would not join.
pub(super) enum NoPmix {
    Missing(Refusal),
    Refused(Refusal),
}

impl PmixLibrary {
    /// Loads the first of `names` and joins the job that the environment tells.
    pub(super) fn join(names: &[String]) -> Result<Self, NoPmix> {
        let library = Library::open(names, libc::RTLD_LOCAL).map_err(NoPmix::Missing)?;
        let find = |symbol| library.find(symbol).map_err(NoPmix::Missing);
        let me = Proc { nspace: [0; 256], rank: 0 };
        // SAFETY: each address is the exported function of this name, whose prototype has been the same since PMIx 3;
        // the structures are checked above.
        let (mut pmix, init) = unsafe {
            let pmix = Self {
                me,
                finalize: std::mem::transmute::<*mut c_void, Finalize>(find(c"PMIx_Finalize")?),
                put: std::mem::transmute::<*mut c_void, Put>(find(c"PMIx_Put")?),
                commit: std::mem::transmute::<*mut c_void, Commit>(find(c"PMIx_Commit")?),
                fence: std::mem::transmute::<*mut c_void, Fence>(find(c"PMIx_Fence")?),
                get: std::mem::transmute::<*mut c_void, Get>(find(c"PMIx_Get")?),
                abort: std::mem::transmute::<*mut c_void, Abort>(find(c"PMIx_Abort")?),
                version: std::mem::transmute::<*mut c_void, Version>(find(c"PMIx_Get_version")?),
                words: std::mem::transmute::<*mut c_void, Words>(find(c"PMIx_Error_string")?),
                name: library.name.clone(),
            };
            (pmix, std::mem::transmute::<*mut c_void, Init>(find(c"PMIx_Init")?))
        };
        // SAFETY: `me` is a proc to be written to; no infos are given.
        let code = unsafe { init(&raw mut pmix.me, std::ptr::null_mut(), 0) };
        match pmix.check("PMIx_Init", code) {
            Ok(()) => Ok(pmix),
            Err(why) => Err(NoPmix::Refused(why)),
        }
    }

    /// The file that was loaded.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn version(&self) -> String {
        // SAFETY: takes nothing, and gives a string that lives as long as the library.
        unsafe { text((self.version)()) }
    }

    pub(super) fn rank(&self) -> u32 {
        self.me.rank
    }

    fn check(&self, call: &str, code: c_int) -> Result<(), Refusal> {
        match code {
            SUCCESS => Ok(()),
            // SAFETY: any number is allowed; the answer is null or a string that lives as long as the library.
            _ => Err(format!("{call}: {} ({code})", unsafe { text((self.words)(code)) })),
        }
    }

    /// Puts bytes under a key of ours, seen by others once all came to a fence; `local`: by those that the launcher has put on our node.
    pub(super) fn put(&mut self, key: &str, bytes: &[u8], local: bool) -> Result<(), Refusal> {
        let scope = if local { SCOPE_LOCAL } else { SCOPE_GLOBAL };
        let key: [c_char; 512] = array(key);
        let bytes = Bytes { start: bytes.as_ptr().cast_mut().cast(), len: bytes.len() };
        let mut value = Value { kind: BYTE_OBJECT, data: Data { all: [0; 3] } };
        value.data.bytes = bytes;
        // SAFETY: `key` has the length of a key and ends in a NUL; `value` describes bytes that live until the end of
        // the call, which copies them and changes nothing.
        let code = unsafe { (self.put)(scope, key.as_ptr(), &raw mut value) };
        self.check("PMIx_Put", code)
    }

    /// Waits for all ranks; afterwards what they put can be had here.
    pub(super) fn fence(&mut self) -> Result<(), Refusal> {
        // SAFETY: takes nothing.
        let code = unsafe { (self.commit)() };
        self.check("PMIx_Commit", code)?;
        let all = Proc { rank: WILDCARD, ..self.me };
        let mut value = Value { kind: BOOL, data: Data { all: [0; 3] } };
        value.data.flag = true;
        let collect = Info { key: array("pmix.collect"), flags: 0, value };
        // SAFETY: one proc and one info, which live until the end of the call.
        let code = unsafe { (self.fence)(&raw const all, 1, &raw const collect, 1) };
        self.check("PMIx_Fence", code)
    }

    /// What `rank` put under `key`, or what is known about the job (no rank).
    pub(super) fn get(&mut self, rank: Option<u32>, key: &str) -> Result<Found, Refusal> {
        let of = Proc { rank: rank.unwrap_or(WILDCARD), ..self.me };
        let key: [c_char; 512] = array(key);
        let mut value: *mut Value = std::ptr::null_mut();
        // SAFETY: a proc, a key of full length, no infos, and a pointer to be written to; all live until the end of the
        // call.
        let code = unsafe { (self.get)(&raw const of, key.as_ptr(), std::ptr::null(), 0, &raw mut value) };
        self.check("PMIx_Get", code)?;
        if value.is_null() {
            return Err("PMIx_Get: no value".to_owned());
        }
        // SAFETY: a successful get gives a value that is ours, made by malloc, as is what it points to. Its kind says
        // which member of the union holds.
        unsafe {
            let found = match (*value).kind {
                UINT32 | PROC_RANK => Ok(Found::Number((*value).data.word)),
                UINT16 => Ok(Found::Number((*value).data.word & 0xFFFF)),
                STRING => {
                    let string = (*value).data.string;
                    let found = Found::Text(text(string));
                    libc::free(string.cast());
                    Ok(found)
                }
                BYTE_OBJECT => {
                    let Bytes { start, len } = (*value).data.bytes;
                    let bytes = match start.is_null() {
                        true => Vec::new(),
                        false => std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec(),
                    };
                    libc::free(start.cast());
                    Ok(Found::Bytes(bytes))
                }
                // What it may point to is lost.
                other => Err(format!("PMIx_Get: a value of type {other}")),
            };
            libc::free(value.cast());
            found
        }
    }

    /// Asks for the end of the job. It may come before this returns.
    pub(super) fn abort(&mut self, code: i32, message: &str) {
        let message = c_string(message);
        // SAFETY: a C string that lives until the end of the call; no procs means all.
        unsafe { (self.abort)(code, message.as_ptr(), std::ptr::null_mut(), 0) };
    }

    pub(super) fn finalize(&mut self) -> Result<(), Refusal> {
        // SAFETY: no infos are given.
        let code = unsafe { (self.finalize)(std::ptr::null(), 0) };
        self.check("PMIx_Finalize", code)
    }
}

// --- libpmi ---------------------------------------------------------------------------------------------------------

type Number = unsafe extern "C" fn(*mut c_int) -> c_int;
type Plain = unsafe extern "C" fn() -> c_int;
type NameOut = unsafe extern "C" fn(*mut c_char, c_int) -> c_int;
type Named = unsafe extern "C" fn(*const c_char) -> c_int;
type PutText = unsafe extern "C" fn(*const c_char, *const c_char, *const c_char) -> c_int;
type GetText = unsafe extern "C" fn(*const c_char, *const c_char, *mut c_char, c_int) -> c_int;
type AbortText = unsafe extern "C" fn(c_int, *const c_char) -> c_int;

/// The library of PMI-1 that a launcher brings.
pub(super) struct PmiLibrary {
    kvsname: CString,
    rank: c_int,
    size: c_int,
    put: PutText,
    commit: Named,
    barrier: Plain,
    get: GetText,
    abort: AbortText,
    finalize: Plain,
    name: String,
}

/// The longest name and value that we take.
const LONGEST: usize = 4096;
/// The same without the NUL at its end, as libpmi wants it.
const ROOM: c_int = 4095;

impl PmiLibrary {
    /// Loads the first of `names` and joins the job that the environment tells.
    pub(super) fn join(names: &[String]) -> Result<Self, Refusal> {
        // Slurm's loads plugins that expect its symbols and are not linked with it.
        let library = Library::open(names, libc::RTLD_GLOBAL)?;
        let find = |symbol| library.find(symbol);
        // SAFETY: for all, the address is the exported function of this name, whose prototype has been the same since
        // PMI 1.1.
        let (mut pmi, init, get_size, get_rank, get_name) = unsafe {
            let pmi = Self {
                kvsname: CString::default(),
                rank: 0,
                size: 0,
                put: std::mem::transmute::<*mut c_void, PutText>(find(c"PMI_KVS_Put")?),
                commit: std::mem::transmute::<*mut c_void, Named>(find(c"PMI_KVS_Commit")?),
                barrier: std::mem::transmute::<*mut c_void, Plain>(find(c"PMI_Barrier")?),
                get: std::mem::transmute::<*mut c_void, GetText>(find(c"PMI_KVS_Get")?),
                abort: std::mem::transmute::<*mut c_void, AbortText>(find(c"PMI_Abort")?),
                finalize: std::mem::transmute::<*mut c_void, Plain>(find(c"PMI_Finalize")?),
                name: library.name.clone(),
            };
            let number = |symbol| find(symbol).map(|f| std::mem::transmute::<*mut c_void, Number>(f));
            let name = std::mem::transmute::<*mut c_void, NameOut>(find(c"PMI_KVS_Get_my_name")?);
            (pmi, number(c"PMI_Init")?, number(c"PMI_Get_size")?, number(c"PMI_Get_rank")?, name)
        };
        let mut spawned = 0;
        let mut kvsname = [0 as c_char; LONGEST];
        // SAFETY: numbers to be written to, and an array with its length less the NUL at its end.
        let codes = unsafe {
            let started = init(&raw mut spawned);
            if started != SUCCESS {
                return Err(format!("PMI_Init of {}: error {started}", pmi.name));
            }
            let (size, rank) = (get_size(&raw mut pmi.size), get_rank(&raw mut pmi.rank));
            [size, rank, get_name(kvsname.as_mut_ptr(), ROOM)]
        };
        if let Some(code) = codes.into_iter().find(|c| *c != SUCCESS) {
            return Err(format!("{} does not tell our rank: error {code}", pmi.name));
        }
        // SAFETY: the array's last character is still the NUL that it was made with.
        pmi.kvsname = unsafe { CStr::from_ptr(kvsname.as_ptr()) }.to_owned();
        Ok(pmi)
    }

    /// The file that was loaded.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Our rank and the number of ranks, as the library says.
    pub(super) fn place(&self) -> (i64, i64) {
        (self.rank.into(), self.size.into())
    }

    fn check(&self, call: &str, code: c_int) -> Result<(), Refusal> {
        match code {
            SUCCESS => Ok(()),
            _ => Err(format!("{call} of {}: error {code}", self.name)),
        }
    }

    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        let (key, value) = (c_string(key), c_string(value));
        // SAFETY: three C strings that live until the end of the call, which copies them.
        let code = unsafe { (self.put)(self.kvsname.as_ptr(), key.as_ptr(), value.as_ptr()) };
        self.check("PMI_KVS_Put", code)
    }

    pub(super) fn fence(&mut self) -> Result<(), Refusal> {
        // SAFETY: a C string.
        let code = unsafe { (self.commit)(self.kvsname.as_ptr()) };
        self.check("PMI_KVS_Commit", code)?;
        // SAFETY: takes nothing.
        let code = unsafe { (self.barrier)() };
        self.check("PMI_Barrier", code)
    }

    pub(super) fn get(&mut self, key: &str) -> Result<Vec<u8>, Refusal> {
        let key = c_string(key);
        let mut value = [0 as c_char; LONGEST];
        // SAFETY: two C strings, and an array with its length less the NUL at its end.
        let code = unsafe { (self.get)(self.kvsname.as_ptr(), key.as_ptr(), value.as_mut_ptr(), ROOM) };
        self.check("PMI_KVS_Get", code)?;
        // SAFETY: the array's last character is still the NUL that it was made with.
        Ok(unsafe { CStr::from_ptr(value.as_ptr()) }.to_bytes().to_vec())
    }

    /// Asks for the end of the job; as a rule it ends this process at once.
    pub(super) fn abort(&mut self, code: i32, message: &str) {
        let message = c_string(message);
        // SAFETY: a C string that lives until the end of the call.
        unsafe { (self.abort)(code, message.as_ptr()) };
    }

    pub(super) fn finalize(&mut self) -> Result<(), Refusal> {
        // SAFETY: takes nothing.
        let code = unsafe { (self.finalize)() };
        self.check("PMI_Finalize", code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused() {
        let missing = [String::from("libno-such-thing.so.7"), String::from("a\0b")];
        let why = PmiLibrary::join(&missing).err().unwrap();
        assert!(why.contains("libno-such-thing.so.7"), "{why}");
        // A library, but not of this kind: refused before anything in it is called.
        let why = PmiLibrary::join(&[String::from("libc.so.6")]).err().unwrap();
        assert!(why.contains("libc.so.6 has no PMI_KVS_Put"), "{why}");
        match PmixLibrary::join(&[String::from("libc.so.6")]) {
            Err(NoPmix::Missing(why)) => assert!(why.contains("has no PMIx_Finalize"), "{why}"),
            _ => panic!("libc is no libpmix"),
        }
    }

    #[test]
    fn texts_are_cut_and_end() {
        let short: [c_char; 4] = array("ab");
        assert_eq!(short, [97, 98, 0, 0]);
        let cut: [c_char; 3] = array("abcdef");
        assert_eq!(cut, [97, 98, 0]);
        assert_eq!(c_string("a\0b").to_bytes(), b"a b");
    }
}
