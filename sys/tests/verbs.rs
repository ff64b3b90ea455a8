//! libibverbs, with or without a device: what is looked up is there, and can be called.

use libfabric_sys::verbs::{IBV_EVENT_DEVICE_FATAL, IBV_WC_RETRY_EXC_ERR, Verbs};

#[test]
fn libibverbs_is_loaded_or_its_absence_is_told() {
    let verbs = match Verbs::load() {
        Ok(verbs) => verbs,
        Err(e) => return assert!(e.to_string().contains("libibverbs1"), "{e}"),
    };
    assert!(std::ptr::eq(verbs, Verbs::load().unwrap()), "once per process");
    // The constants are those of the library's own table of words.
    assert_eq!(verbs.status(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
    assert_eq!(verbs.event(IBV_EVENT_DEVICE_FATAL), "local catastrophic error");
    let mut count = -1;
    // SAFETY: the count can be written; a list that comes back is freed, and nothing of it is kept.
    unsafe {
        let list = verbs.ibv_get_device_list(&mut count);
        if !list.is_null() {
            assert!(count >= 0);
            verbs.ibv_free_device_list(list);
        }
    }
}
