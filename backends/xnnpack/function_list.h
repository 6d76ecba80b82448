// Lists the functions of XNNPACK and pthreadpool that are called here. functions.h includes this
// file with several definitions of OCTET_FUNCTION.
OCTET_FUNCTION(xnn_initialize)
OCTET_FUNCTION(xnn_create_subgraph)
OCTET_FUNCTION(xnn_delete_subgraph)
OCTET_FUNCTION(xnn_create_runtime_v2)
OCTET_FUNCTION(xnn_delete_runtime)
OCTET_FUNCTION(xnn_setup_runtime)
OCTET_FUNCTION(xnn_invoke_runtime)
OCTET_FUNCTION(xnn_define_tensor_value)
OCTET_FUNCTION(xnn_define_quantized_tensor_value)
OCTET_FUNCTION(xnn_define_channelwise_quantized_tensor_value)
OCTET_FUNCTION(xnn_define_abs)
OCTET_FUNCTION(xnn_define_add2)
OCTET_FUNCTION(xnn_define_average_pooling_2d)
OCTET_FUNCTION(xnn_define_clamp)
OCTET_FUNCTION(xnn_define_convert)
OCTET_FUNCTION(xnn_define_convolution_2d)
OCTET_FUNCTION(xnn_define_deconvolution_2d)
OCTET_FUNCTION(xnn_define_depthwise_convolution_2d)
OCTET_FUNCTION(xnn_define_divide)
OCTET_FUNCTION(xnn_define_elu)
OCTET_FUNCTION(xnn_define_global_average_pooling_2d)
OCTET_FUNCTION(xnn_define_hardswish)
OCTET_FUNCTION(xnn_define_leaky_relu)
OCTET_FUNCTION(xnn_define_max_pooling_2d)
OCTET_FUNCTION(xnn_define_multiply2)
OCTET_FUNCTION(xnn_define_negate)
OCTET_FUNCTION(xnn_define_sigmoid)
OCTET_FUNCTION(xnn_define_square_root)
OCTET_FUNCTION(xnn_define_static_constant_pad)
OCTET_FUNCTION(xnn_define_static_reshape)
OCTET_FUNCTION(xnn_define_static_resize_bilinear_2d)
OCTET_FUNCTION(xnn_define_subtract)
#ifdef OCTET_XNNPACK_HAS_TANH
OCTET_FUNCTION(xnn_define_tanh)
#endif
#ifdef OCTET_XNNPACK_HAS_ROW_PRODUCT
OCTET_FUNCTION(xnn_create_fully_connected_nc_qd8_f32_qc8w)
OCTET_FUNCTION(xnn_reshape_fully_connected_nc_qd8_f32_qc8w)
OCTET_FUNCTION(xnn_setup_fully_connected_nc_qd8_f32_qc8w)
OCTET_FUNCTION(xnn_run_operator)
OCTET_FUNCTION(xnn_delete_operator)
#endif
OCTET_FUNCTION(pthreadpool_create)
OCTET_FUNCTION(pthreadpool_destroy)
OCTET_FUNCTION(pthreadpool_get_threads_count)
// The header overloads these names, so their types are spelled out.
OCTET_FUNCTION_OF_TYPE(pthreadpool_parallelize_1d_tile_1d,
                       void(pthreadpool_t, pthreadpool_task_1d_tile_1d_t, void*, size_t, size_t,
                            uint32_t))
OCTET_FUNCTION_OF_TYPE(pthreadpool_parallelize_2d_tile_2d,
                       void(pthreadpool_t, pthreadpool_task_2d_tile_2d_t, void*, size_t, size_t,
                            size_t, size_t, uint32_t))
