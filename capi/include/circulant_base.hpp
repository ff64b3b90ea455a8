// What the calls of circulant.hpp take and give: errors, spans, requests, operators, memory, counts and layouts.  Included by it.
#ifndef CIRCULANT_BASE_HPP
#define CIRCULANT_BASE_HPP

#include "circulant.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace circulant {

// An error of the library, with its parts.
class Error : public std::runtime_error {
public:
    explicit Error (circulant_status_t status)
        : std::runtime_error (circulant_last_error ()), status_ (status), rank_ (circulant_error_rank ()),
          peer_ (circulant_error_peer ()), survived_ (circulant_error_survived () != 0)
    {
        if (const char *text = circulant_error_operation ())
            operation_ = text;
        if (const char *text = circulant_error_remedy ())
            remedy_ = text;
    }
    circulant_status_t status () const noexcept { return status_; }
    int rank () const noexcept { return rank_; } // that met it; -1: not known
    int peer () const noexcept { return peer_; } // at fault; -1: not known
    bool is_survived () const noexcept { return survived_; } // the world goes on
    const std::string &operation () const noexcept { return operation_; }
    const std::string &remedy () const noexcept { return remedy_; }

private:
    circulant_status_t status_;
    int rank_, peer_;
    bool survived_;
    std::string operation_, remedy_;
};

inline void check (circulant_status_t status)
{
    if (status != CIRCULANT_OK)
        throw Error (status);
}

// A pointer and a number of elements.
template <class T> class Span {
public:
    constexpr Span () noexcept = default;
    constexpr Span (T *data, std::size_t size) noexcept : data_ (data), size_ (size) {}
    template <class C, class = std::enable_if_t<!std::is_same_v<std::decay_t<C>, Span>>,
              class = std::enable_if_t<std::is_convertible_v<decltype (std::declval<C &> ().data ()), T *>>>
    constexpr Span (C &&from) noexcept : data_ (from.data ()), size_ (from.size ())
    {
    }
    constexpr T *data () const noexcept { return data_; }
    constexpr std::size_t size () const noexcept { return size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// In place of what is sent.
struct InPlace {};
inline constexpr InPlace in_place {};

namespace detail {
template <class T> constexpr circulant_type_t type ()
{
    using U = std::remove_cv_t<T>;
    static_assert (std::is_trivially_copyable_v<U>, "elements are bytes to the library");
    if constexpr (std::is_same_v<U, float>)
        return CIRCULANT_FLOAT;
    else if constexpr (std::is_same_v<U, double>)
        return CIRCULANT_DOUBLE;
    else if constexpr (std::is_same_v<U, std::complex<float>>)
        return CIRCULANT_COMPLEX_FLOAT;
    else if constexpr (std::is_same_v<U, std::complex<double>>)
        return CIRCULANT_COMPLEX_DOUBLE;
    else if constexpr (std::is_integral_v<U> && !std::is_same_v<U, bool> && sizeof (U) <= 8)
        return (std::is_signed_v<U> ? CIRCULANT_INT8 : CIRCULANT_UINT8) + (sizeof (U) == 1 ? 0 : sizeof (U) == 2 ? 1 : sizeof (U) == 4 ? 2 : 3);
    else
        return CIRCULANT_BYTES (sizeof (U));
}

// The elements of a container.
template <class C> using element_t = std::remove_cv_t<std::remove_pointer_t<decltype (std::declval<C &> ().data ())>>;

inline void wants (bool fits, const char *what)
{
    if (!fits)
        throw std::invalid_argument (what);
}

inline std::size_t each (std::size_t size, int ranks)
{
    // Of no neighbours there is nothing.
    wants (ranks == 0 ? size == 0 : size % static_cast<std::size_t> (ranks) == 0, "the elements cannot be shared equally by the ranks");
    return ranks == 0 ? 0 : size / static_cast<std::size_t> (ranks);
}

inline std::size_t same (std::size_t a, std::size_t b)
{
    wants (a == b, "what is sent and what is received differ in length");
    return a;
}

template <class F, class H, class... A> void call (F function, H handle, const std::tuple<A...> &arguments)
{
    check (std::apply ([&] (auto... all) { return function (handle, all...); }, arguments));
}
} // namespace detail

// A non-blocking call under way, or a persistent operation: its buffers are borrowed until it has finished.  Destroying it waits.
class Request {
public:
    Request () noexcept = default;
    explicit Request (circulant_request_t *request) noexcept : request_ (request) {}
    Request (Request &&other) noexcept : request_ (std::exchange (other.request_, nullptr)) {}
    Request &operator= (Request &&other) noexcept
    {
        std::swap (request_, other.request_);
        return *this;
    }
    ~Request () { circulant_request_free (&request_); }
    bool test ()
    {
        int finished = 0;
        check (circulant_test (&request_, &finished));
        return finished != 0;
    }
    void wait () { check (circulant_wait (&request_)); }
    void start () { check (circulant_start (request_)); } // a persistent one

private:
    friend class Requests;
    circulant_request_t *request_ = nullptr;
};

// Several, for what waits for one or all of them.
class Requests {
public:
    explicit Requests (std::vector<Request> &all) : all_ (all)
    {
        for (Request &one : all_)
            handles_.push_back (one.request_);
    }
    ~Requests ()
    {
        for (std::size_t i = 0; i < handles_.size (); i++)
            all_[i].request_ = handles_[i];
    }
    Requests (const Requests &) = delete;
    Requests &operator= (const Requests &) = delete;
    void wait_all () { check (circulant_waitall (handles_.size (), handles_.data ())); }
    bool test_all ()
    {
        int finished = 0;
        check (circulant_testall (handles_.size (), handles_.data (), &finished));
        return finished != 0;
    }
    std::size_t wait_any ()
    {
        std::size_t index = 0;
        check (circulant_waitany (handles_.size (), handles_.data (), &index));
        return index;
    }

private:
    std::vector<Request> &all_;
    std::vector<circulant_request_t *> handles_;
};

inline void wait_all (std::vector<Request> &requests) { Requests (requests).wait_all (); }
inline bool test_all (std::vector<Request> &requests) { return Requests (requests).test_all (); }
// Which one has finished; their number if none is under way.
inline std::size_t wait_any (std::vector<Request> &requests) { return Requests (requests).wait_any (); }

namespace detail {
template <class F, class H, class... A> Request begin (F function, H handle, const std::tuple<A...> &arguments)
{
    circulant_request_t *request = nullptr;
    check (std::apply ([&] (auto... all) { return function (handle, all..., &request); }, arguments));
    return Request (request);
}
} // namespace detail

// An operator of the program.  `Function` is void (const T *left, T *right, std::size_t n), without state.
class Operator {
public:
    template <class T, void (*Function) (const T *, T *, std::size_t)> static Operator of (const std::string &name, bool commutative)
    {
        auto call = [] (const void *left, void *right, std::size_t n, void *) {
            Function (static_cast<const T *> (left), static_cast<T *> (right), n);
        };
        Operator made;
        check (circulant_op_create (name.c_str (), detail::type<T> (), commutative, call, nullptr, &made.op_));
        return made;
    }
    Operator (Operator &&other) noexcept : op_ (std::exchange (other.op_, nullptr)) {}
    Operator &operator= (Operator &&other) noexcept
    {
        std::swap (op_, other.op_);
        return *this;
    }
    ~Operator () { circulant_op_free (&op_); }
    operator circulant_op_t () const noexcept { return op_; }

private:
    Operator () noexcept = default;
    circulant_op_t op_ = nullptr;
};

// Zeroed elements in registered memory.
template <class T> class Buffer {
public:
    Buffer (const circulant_comm_t *comm, std::size_t size) : size_ (size)
    {
        static_assert (std::is_trivially_copyable_v<T>, "elements are bytes to the library");
        if (size > SIZE_MAX / sizeof (T))
            throw std::bad_alloc ();
        check (circulant_alloc (comm, size * sizeof (T), &memory_));
    }
    Buffer (Buffer &&other) noexcept : memory_ (std::exchange (other.memory_, nullptr)), size_ (std::exchange (other.size_, 0)) {}
    Buffer &operator= (Buffer &&other) noexcept
    {
        std::swap (memory_, other.memory_);
        std::swap (size_, other.size_);
        return *this;
    }
    ~Buffer () { circulant_free (&memory_); }
    T *data () const noexcept { return static_cast<T *> (memory_); }
    std::size_t size () const noexcept { return size_; }
    T *begin () const noexcept { return data (); }
    T *end () const noexcept { return data () + size_; }
    T &operator[] (std::size_t i) const noexcept { return data ()[i]; }

private:
    void *memory_ = nullptr;
    std::size_t size_ = 0;
};

using Counts = std::vector<std::size_t>;

// How a buffer is divided: counts, and where the parts begin; without displacements they stand one behind the other.  For the duration of a call.
class Parts {
public:
    Parts () noexcept = default; // where a call does not look at them
    Parts (const Counts &counts) noexcept : counts_ (&counts) {}
    Parts (const Counts &counts, const Counts &displs) noexcept : counts_ (&counts), displs_ (&displs) {}
    const std::size_t *counts () const noexcept { return counts_ ? counts_->data () : nullptr; }
    const std::size_t *displs () const noexcept { return displs_ ? displs_->data () : nullptr; }
    std::size_t operator[] (std::size_t part) const { return counts_->at (part); }
    // Checks that there are so many, and that they lie in a buffer of so many elements.
    void fit (std::size_t parts, std::size_t room) const
    {
        detail::wants (counts_ != nullptr && counts_->size () == parts, "there is not a count for each rank");
        detail::wants (displs_ == nullptr || displs_->size () == parts, "there is not a displacement for each rank");
        for (std::size_t i = 0, end = 0; i < parts; i++) {
            const std::size_t at = displs_ ? (*displs_)[i] : end, n = (*counts_)[i];
            detail::wants (n == 0 || (at <= room && n <= room - at), "a part does not fit into its buffer");
            end += n;
        }
    }

private:
    const Counts *counts_ = nullptr, *displs_ = nullptr;
};

using Piece = circulant_piece_t;
using Layout = std::vector<Piece>;

// The layouts of one buffer, one for each rank: std::vector<Layout>.  For the duration of a call.
class Layouts {
public:
    Layouts () noexcept = default; // in place
    Layouts (const std::vector<Layout> &all)
    {
        for (const Layout &one : all)
            all_.push_back ({one.data (), one.size ()});
    }
    const circulant_layout_t *data () const noexcept { return all_.empty () ? nullptr : all_.data (); }
    // Checks that there are so many, and that they lie in a buffer of so many bytes.
    void fit (std::size_t ranks, std::size_t room) const
    {
        detail::wants (all_.size () == ranks, "there is not a layout for each rank");
        for (const circulant_layout_t &one : all_)
            for (std::size_t i = 0; i < one.n; i++)
                fits (one.pieces[i], room);
    }

private:
    static void fits (const Piece &piece, std::size_t room)
    {
        if (piece.count == 0 || piece.bytes == 0)
            return;
        const bool first = piece.offset <= room && piece.bytes <= room - piece.offset;
        // Of those behind the first one.
        const std::size_t behind = first ? room - piece.offset - piece.bytes : 0;
        detail::wants (first && (piece.stride == 0 || piece.count - 1 <= behind / piece.stride), "a piece does not fit into its buffer");
    }
    std::vector<circulant_layout_t> all_;
};

namespace detail {
template <class S> constexpr bool is_in_place = std::is_same_v<std::decay_t<S>, InPlace>;

// The type of the elements of a call, which both buffers have.
template <class S, class R> struct Elements {
    using type = element_t<std::conditional_t<is_in_place<R>, S, R>>;
    using sent = element_t<std::conditional_t<is_in_place<S>, R, S>>;
    static_assert (std::is_same_v<type, sent>, "what is sent and received are of one type");
};
template <class S, class R> constexpr circulant_type_t type_of () { return type<typename Elements<S, R>::type> (); }

inline void *in_place_of (InPlace) { return CIRCULANT_IN_PLACE; }
template <class S> auto in_place_of (S &send) { return send.data (); }
inline std::size_t count (InPlace, std::size_t n) { return n; }
template <class S> std::size_t count (const S &send, std::size_t) { return send.size (); }
} // namespace detail

} // namespace circulant

#endif
