//! Loads libfabric at run time.

use crate::bindings::*;
use crate::preserve::Preserved;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Mutex;

/// The oldest libfabric that will do, as (major, minor): the one whose headers the bindings come from.
pub const OLDEST: (u32, u32) = (1, 17);

type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut fi_info);
type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type OpenFabric = unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type ToStr = unsafe extern "C" fn(*const c_void, fi_type) -> *mut c_char;
type Version = unsafe extern "C" fn() -> u32;

// The headers' own prototypes must be what the look-ups below are cast to. Never linked: only typed.
const _: GetInfo = fi_getinfo;
const _: FreeInfo = fi_freeinfo;
const _: DupInfo = fi_dupinfo;
const _: OpenFabric = fi_fabric;
const _: StrError = fi_strerror;
const _: ToStr = fi_tostr;
const _: Version = fi_version;

/// The functions libfabric exports, once loaded. It is never unloaded: providers leave threads, handlers
/// and patched code behind.
#[derive(Debug)]
pub struct Api {
    getinfo: GetInfo,
    freeinfo: FreeInfo,
    dupinfo: DupInfo,
    fabric: OpenFabric,
    strerror: StrError,
    tostr: ToStr,
    version: Version,
    handle: usize,
    path: PathBuf,
}

/// Why libfabric cannot be used, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The dynamic loader did not find it, or not all it needs.
    Missing {
        /// What was asked for.
        name: String,
        /// The loader's words.
        why: String,
    },
    /// It lacks a function in the version needed.
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its version, where it says one.
        version: Option<(u32, u32)>,
    },
    /// This process already uses another libfabric.
    Another {
        /// The one in use.
        loaded: PathBuf,
    },
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = OLDEST;
        match self {
            Self::Missing { name, why } => write!(
                f,
                "cannot load libfabric as {name:?} ({why}); install it (Debian, Ubuntu: apt install libfabric1; \
                 Fedora, RHEL: dnf install libfabric), version {major}.{minor} or newer, or name its file"
            ),
            Self::TooOld { path, version } => {
                let has = version.map_or_else(|| "it is older".to_owned(), |(a, b)| format!("it is {a}.{b}"));
                write!(
                    f,
                    "{} is too old: {has}, needed is libfabric {major}.{minor} or newer; install a newer one \
                     (Debian 12's libfabric1 will do), or name its file",
                    path.display()
                )
            }
            Self::Another { loaded } => {
                write!(f, "this process already uses {}; use one libfabric per process", loaded.display())
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// The value of FI_VERSION(major, minor).
pub const fn library_version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

static LOADED: Mutex<Option<&'static Api>> = Mutex::new(None);

impl Api {
    /// The libfabric that this process has loaded already, if any.
    pub fn loaded() -> Option<&'static Api> {
        *LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Loads the library called `name` (a path, or a name the dynamic loader knows, such as
    /// `libfabric.so.1`); once per process. Signal handlers and this thread's CPU affinity survive.
    ///
    /// # Safety
    /// Loading runs the library's code, and its functions are called with libfabric's prototypes: it must be a libfabric that
    /// is sound to load into this process.
    ///
    /// # Errors
    /// When it is missing or older than [`OLDEST`], or when another one is in use.
    pub unsafe fn load(name: &str) -> Result<&'static Api, LoadError> {
        let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _preserved = Preserved::take();
        let handle = open(name)?;
        if let Some(api) = *loaded {
            return if api.handle == handle as usize {
                Ok(api)
            } else {
                Err(LoadError::Another { loaded: api.path.clone() })
            };
        }
        let api: &'static Api = Box::leak(Box::new(look_up(handle, name)?));
        *loaded = Some(api);
        Ok(api)
    }

    /// The file it was loaded from.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The library's version, as (major, minor).
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: fi_version takes nothing and only returns a constant.
        let v = unsafe { (self.version)() };
        (v >> 16, v & 0xffff)
    }

    /// fi_getinfo(3) for API version [`OLDEST`], whose structures these are. The first call initialises all
    /// providers; signal handlers and this thread's CPU affinity survive it. 0, or a negative error number.
    ///
    /// # Safety
    /// `hints` is null or from [`Api::allocinfo`] and consistent; `info` can be written. What comes back
    /// belongs to the caller, which ends it with [`Api::freeinfo`].
    pub unsafe fn getinfo(
        &self,
        node: Option<&CStr>,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int {
        let _preserved = Preserved::take();
        let node = node.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: `node` is null or a C string that outlives the call; the rest is the caller's promise.
        unsafe {
            (self.getinfo)(library_version(OLDEST.0, OLDEST.1), node, std::ptr::null(), flags, hints, info)
        }
    }

    /// fi_freeinfo(3).
    ///
    /// # Safety
    /// `info` is null or a list from this library that is not used any more.
    pub unsafe fn freeinfo(&self, info: *mut fi_info) {
        // SAFETY: passed on.
        unsafe { (self.freeinfo)(info) }
    }

    /// fi_dupinfo(3): a copy of one entry. Null when memory is short.
    ///
    /// # Safety
    /// `info` is a valid entry from this library.
    pub unsafe fn dupinfo(&self, info: *const fi_info) -> *mut fi_info {
        // SAFETY: passed on.
        unsafe { (self.dupinfo)(info) }
    }

    /// fi_allocinfo(3): an empty entry, all attributes present and zero. Null when memory is short.
    pub fn allocinfo(&self) -> *mut fi_info {
        // SAFETY: a null argument is how the headers ask for an empty entry.
        unsafe { (self.dupinfo)(std::ptr::null()) }
    }

    /// fi_fabric(3). 0, or a negative error number.
    ///
    /// # Safety
    /// `attr` comes from this library's fi_getinfo; `fabric` can be written.
    pub unsafe fn fabric(&self, attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric) -> c_int {
        // SAFETY: passed on; no context is wanted.
        unsafe { (self.fabric)(attr, fabric, std::ptr::null_mut()) }
    }

    /// fi_strerror(3), for an error number of either sign.
    pub fn strerror(&self, error: i64) -> String {
        let error = c_int::try_from(error.unsigned_abs()).unwrap_or(c_int::MAX);
        // SAFETY: any number is allowed; the answer is null or a string that lives as long as the library.
        text(unsafe { (self.strerror)(error) }).unwrap_or_else(|| format!("error {error}"))
    }

    /// fi_tostr(3).
    ///
    /// # Safety
    /// `data` points to what `kind` says. The library has one buffer for the answer: not from two threads.
    pub unsafe fn tostr(&self, data: *const c_void, kind: fi_type) -> String {
        // SAFETY: passed on; the answer is null or a C string, copied before the buffer's next use.
        text(unsafe { (self.tostr)(data, kind) }).unwrap_or_default()
    }
}

/// A copy of the C string at `p`; none for null.
fn text(p: *const c_char) -> Option<String> {
    if p.is_null() {
        return None;
    }
    // SAFETY: not null; the callers pass on strings of the C library or libfabric, which end in a NUL.
    Some(unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
}

fn open(name: &str) -> Result<*mut c_void, LoadError> {
    let missing = |why: String| LoadError::Missing { name: name.to_owned(), why };
    let file = CString::new(name).map_err(|_| missing("the name has a NUL in it".into()))?;
    // SAFETY: `file` is a C string. Loading runs the library's constructors; that it is a libfabric, and
    // not something that does harm, is what the user says by naming it. RTLD_LOCAL keeps its symbols from
    // satisfying others'.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: dlerror's string is valid until this thread's next call of the family; it is copied.
        return Err(missing(text(unsafe { libc::dlerror() }).unwrap_or_else(|| "no reason given".into())));
    }
    Ok(handle)
}

fn look_up(handle: *mut c_void, name: &str) -> Result<Api, LoadError> {
    let find = |symbol: &CStr, version: &CStr| {
        // SAFETY: the handle is open and is never closed; both are C strings.
        unsafe { libc::dlvsym(handle, symbol.as_ptr(), version.as_ptr()) }
    };
    let version = find(c"fi_version", c"FABRIC_1.0");
    let path = file_of(version).unwrap_or_else(|| PathBuf::from(name));
    let too_old = |version| LoadError::TooOld { path: path.clone(), version };
    let need = |symbol, of| {
        let found = find(symbol, of);
        if found.is_null() { Err(too_old(None)) } else { Ok(found) }
    };
    need(c"fi_version", c"FABRIC_1.0")?;
    // SAFETY: for all seven, the address is the exported function of this name in the symbol version whose
    // prototype and structures the bindings describe; the types are checked against them above.
    let api = unsafe {
        Api {
            getinfo: std::mem::transmute::<*mut c_void, GetInfo>(need(c"fi_getinfo", c"FABRIC_1.3")?),
            freeinfo: std::mem::transmute::<*mut c_void, FreeInfo>(need(c"fi_freeinfo", c"FABRIC_1.3")?),
            dupinfo: std::mem::transmute::<*mut c_void, DupInfo>(need(c"fi_dupinfo", c"FABRIC_1.3")?),
            fabric: std::mem::transmute::<*mut c_void, OpenFabric>(need(c"fi_fabric", c"FABRIC_1.1")?),
            strerror: std::mem::transmute::<*mut c_void, StrError>(need(c"fi_strerror", c"FABRIC_1.0")?),
            tostr: std::mem::transmute::<*mut c_void, ToStr>(need(c"fi_tostr", c"FABRIC_1.0")?),
            version: std::mem::transmute::<*mut c_void, Version>(version),
            handle: handle as usize,
            path: path.clone(),
        }
    };
    match api.version() {
        v if v < OLDEST => Err(too_old(Some(v))),
        _ => Ok(api),
    }
}

/// The file that the code at `address` was loaded from.
fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: any address may be asked about; `info` has room for the answer.
    if address.is_null() || unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let name = unsafe { info.assume_init() }.dli_fname;
    let path = PathBuf::from(text(name)?);
    Some(path.canonicalize().unwrap_or(path))
}
